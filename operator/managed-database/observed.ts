/** The observed state of one database. The part that databases and branches share is in owner/observed.ts. */
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
  /** The database's claims of every incarnation, and claims in its status whose labels were removed. */
  claims: readonly PersistentVolumeClaim[]
  restores: readonly Restore[]
}

export type Observed = ObservedOwner & {
  database: ManagedDatabase
  /** All Branch objects of the database, including deleted branches whose object is kept as a record. */
  branches: Branch[]
  /** This database's backups, in any phase. Backups of another database with the same id are not included. */
  backups: Backup[]
  /** The requested restore, until the database's operation ends. */
  restoring: RestoringFacts | undefined
  /** The volumes that restores replaced. */
  previous: PreviousFacts
  /** The connection Secrets, without their values. */
  connectionSecrets: ConnectionSecrets
  /** The state of archiving, with the durable tier. Undefined until the operator has called the agent. */
  archiving?: Finding | undefined
  /** The import of a new database from another Postgres. */
  importing: ImportFacts
  /** The archived WAL position; undefined if unknown. */
  archived?: ManagedDatabaseStatus['archive']
  /** During deletion: the record of the deleted database. */
  deletionRecord?: ConfigMap | undefined
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether the desired state was applied when the status was written, and has not changed since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
