/** A scenario of the sweep: an operation on a database, and what may happen meanwhile. */
import type { Cluster } from '../../../cluster/index.ts'
import type { ManagedDatabase } from '../../../crds/index.ts'
import type { DatabaseRole } from '../../../sealing/credentials.ts'
import type { OperatorConfiguration } from '../../index.ts'
import type { FakeSnapshots } from '../fake-snapshots.ts'
import type { FakeVolumes } from '../fake-volumes.ts'

export type Scenario = {
  name: string
  /** The database before the operation. Absent if there is none. */
  before: Partial<ManagedDatabase['spec']> | undefined
  /** Every address that may be allowed, before or after the operation. */
  rules: string[]
  /** The operation's Task may fail, because the request cannot be met. */
  mayFail?: true
  /** Another client deletes the volume. The database's phase reports that, and the record later names another claim. */
  isEndangered?: true
  /** The role whose password is replaced. */
  rotates?: DatabaseRole
  /** The database does not exist at the end. */
  takesAway?: true
  /** How many branches the database has at the end. Absent for none. */
  copies?: number
  /** How many snapshots of volumes exist at the end. Absent for none. */
  images?: number
  /** Another volume replaces the recorded one, which is kept. Both contain data at the end. */
  isRestored?: true
  /** The replaced volume does not exist at the end. */
  discards?: true
  /** Only `make soak` sweeps this scenario. */
  isLong?: true
  /** The region's volumes can have snapshots. */
  hasSnapshots?: true
  /** How snapshots behave from then on. */
  snapshots?: Partial<Pick<FakeSnapshots, 'making'>>
  /** How volumes behave from then on. */
  volumes?: Partial<Pick<FakeVolumes, 'growth' | 'refusal'>>
  /** The disk usage of the data from then on, in bytes. */
  volumeUse?: number
  /** An earlier request that could not be met. */
  earlier?: Pick<Scenario, 'act' | 'isDone' | 'volumes' | 'snapshots'>
  act(cluster: Cluster, database: Subject): Promise<void>
  isDone(cluster: Cluster, database: Subject): Promise<boolean>
  /** Differences from the operator's usual configuration. */
  configuration?: Partial<OperatorConfiguration>
}

export type Subject = { name: string; id: string; taskId: string }
