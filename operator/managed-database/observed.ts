/** All that a pass knows of one database: its Postgres, and what is a database's alone. */
import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import { type Backup, type Branch, isInForce, type ManagedDatabase, type Restore, type Task } from '../../crds/index.ts'
import type { Observed as ObservedOwner } from '../owner/observed.ts'
import type { ConnectionSecrets } from './connection-secrets.ts'
import type { RestoringFacts } from './restoring.ts'

/** What a pass reads of the previous volumes. */
type PreviousFacts = {
  /** The claims of the database, of any incarnation; with those on record that have lost their labels. */
  claims: readonly PersistentVolumeClaim[]
  restores: readonly Restore[]
}

export type Observed = ObservedOwner & {
  /** The instance that is asked for, as the resource that asks for it. */
  database: ManagedDatabase
  /** Branches whose Branch object exists, tombstones included. */
  branches: Branch[]
  /** Of this very database, whatever has become of them; another one under its id has its own. */
  backups: Backup[]
  /** The restore that is asked for and has not come to its end for the database. */
  restoring: RestoringFacts | undefined
  /** The volumes that served before restores. */
  previous: PreviousFacts
  /** The Secrets by which clients connect. No secret value is among it. */
  connectionSecrets: ConnectionSecrets
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether all that was asked had come into force when the status was written, and nothing else is asked since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
