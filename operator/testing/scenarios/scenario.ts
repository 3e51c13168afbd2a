/** A scenario of the sweep: an operation on a database, and what may happen during it. */
import type { Cluster } from '../../../cluster/index.ts'
import type { ManagedDatabase } from '../../../crds/index.ts'
import type { DatabaseRole } from '../../../sealing/credentials.ts'
import type { OperatorConfiguration } from '../../index.ts'
import type { FakeSnapshots } from '../fake-snapshots.ts'
import type { FakeVolumes } from '../fake-volumes.ts'

export type Scenario = {
  name: string
  /** The database before; absent: there is none. */
  before: Partial<ManagedDatabase['spec']> | undefined
  /** Every address that may be allowed, before or after. */
  rules: string[]
  /** Its Task may fail: the request cannot be met. */
  mayFail?: true
  /** Another client deletes its volume: its phase reports that, and the record names another claim afterwards. */
  isEndangered?: true
  /** The role whose password is replaced. */
  rotates?: DatabaseRole
  /** The database is deleted in the end. */
  takesAway?: true
  /** How many branches the database has in the end; absent: none. */
  copies?: number
  /** How many snapshots of volumes exist in the end; absent: none. */
  images?: number
  /** Another volume replaces the recorded one, which is kept: both contain data in the end. */
  isRestored?: true
  /** The replaced volume is deleted in the end. */
  discards?: true
  /** Only swept by `make soak`. */
  isLong?: true
  /** The region's volumes can have snapshots. */
  hasSnapshots?: true
  /** The behaviour of snapshots from then on. */
  snapshots?: Partial<Pick<FakeSnapshots, 'making'>>
  /** The behaviour of volumes from then on. */
  volumes?: Partial<Pick<FakeVolumes, 'growth' | 'refusal'>>
  /** The disk usage of the data from then on, in bytes. */
  volumeUse?: number
  /** The earlier request, which could not be met. */
  earlier?: Pick<Scenario, 'act' | 'isDone' | 'volumes' | 'snapshots'>
  act(cluster: Cluster, database: Subject): Promise<void>
  isDone(cluster: Cluster, database: Subject): Promise<boolean>
  /** The deviation from the operator's usual configuration. */
  configuration?: Partial<OperatorConfiguration>
}

export type Subject = { name: string; id: string; taskId: string }
