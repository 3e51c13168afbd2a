/** The observed state of one database, besides the state common to every owner. */
import type { ConfigMap, PersistentVolumeClaim } from '../../cluster/index.ts'
import {
  type Backup,
  type Branch,
  isInForce,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  type Restore,
  type Task,
} from '../../crds/index.ts'
import type { Finding } from '../objects/conditions.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'
import type { ConnectionSecrets } from './connection-secrets.ts'
import type { ImportFacts } from './import/facts.ts'
import type { RestoringFacts } from './restoring.ts'

/** The observed state of the previous volumes. */
type PreviousFacts = {
  /** The claims of the database, of any incarnation, and those in its status that have lost their labels. */
  claims: readonly PersistentVolumeClaim[]
  restores: readonly Restore[]
}

export type Observed = ObservedOwner & {
  database: ManagedDatabase
  /** Branches whose object exists, records of deleted ones included. */
  branches: Branch[]
  /** Of this database, in any phase. Another database with the same id has its own. */
  backups: Backup[]
  /** The requested restore, until the database's operation has ended. */
  restoring: RestoringFacts | undefined
  /** The volumes that restores replaced. */
  previous: PreviousFacts
  /** The Secrets by which clients connect, without their values. */
  connectionSecrets: ConnectionSecrets
  /** How it archives, with the durable tier; undefined until its agent has been called. */
  archiving?: Finding | undefined
  /** The import of a new database from another Postgres. */
  importing: ImportFacts
  /** The archived position; undefined if unknown. */
  archived?: ManagedDatabaseStatus['archive']
  /** During deletion: the record of the deleted database. */
  deletionRecord?: ConfigMap | undefined
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether everything desired was applied when the status was written, and nothing else is desired since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
