/** What a scenario of the sweep is: an operation on a database, and what may happen meanwhile. */
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
  /** Everything that any client may be let in by, before or after. */
  rules: string[]
  /** Its Task may fail: what is asked cannot be had. */
  mayFail?: true
  /** Somebody deletes its volume: that is told by its phase, and the record comes to name another claim. */
  isEndangered?: true
  /** The role whose password is replaced. */
  rotates?: DatabaseRole
  /** The database is gone in the end. */
  takesAway?: true
  /** How many branches the database has in the end; absent: none. */
  copies?: number
  /** How many images of volumes there are in the end; absent: none. */
  images?: number
  /** Another volume takes the place of the one on record, which stays: both hold data in the end. */
  isRestored?: true
  /** The volume that was replaced is deleted in the end. */
  discards?: true
  /** Swept by `make soak` only. */
  isLong?: true
  /** The region's volumes can have snapshots. */
  hasSnapshots?: true
  /** What becomes of snapshots from then on. */
  snapshots?: Partial<Pick<FakeSnapshots, 'making'>>
  /** What becomes of volumes from then on. */
  volumes?: Partial<Pick<FakeVolumes, 'growth' | 'refusal'>>
  /** What the data take up of their volume from then on, in bytes. */
  volumeUse?: number
  /** What was asked before, and could not be had. */
  earlier?: Pick<Scenario, 'act' | 'isDone' | 'volumes' | 'snapshots'>
  act(cluster: Cluster, database: Subject): Promise<void>
  isDone(cluster: Cluster, database: Subject): Promise<boolean>
  /** How the operator is configured otherwise than usually. */
  configuration?: Partial<OperatorConfiguration>
}

export type Subject = { name: string; id: string; taskId: string }
