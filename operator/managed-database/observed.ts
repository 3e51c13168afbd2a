/** What a pass observes of one database besides what it observes of every owner. */
import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import { type Backup, type Branch, isInForce, type ManagedDatabase, type Restore, type Task } from '../../crds/index.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'
import type { ConnectionSecrets } from './connection-secrets.ts'
import type { RestoringFacts } from './restoring.ts'

/** What a pass observes of the previous volumes. */
type PreviousFacts = {
  /** The claims of the database, of any incarnation, and those in its status that have lost their labels. */
  claims: readonly PersistentVolumeClaim[]
  restores: readonly Restore[]
}

export type Observed = ObservedOwner & {
  database: ManagedDatabase
  /** Branches whose object exists, records of deleted ones included. */
  branches: Branch[]
  /** Of this database, in any phase. Another database with its id has its own. */
  backups: Backup[]
  /** The requested restore, until the database's operation has ended. */
  restoring: RestoringFacts | undefined
  /** The volumes that served before a restore. */
  previous: PreviousFacts
  /** The Secrets by which clients connect, without their values. */
  connectionSecrets: ConnectionSecrets
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether everything desired was applied when the status was written, and nothing else is desired since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
