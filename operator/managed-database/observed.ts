/** All that a pass knows of one database: its Postgres, and what is a database's alone. */
import { type Backup, type Branch, isInForce, type ManagedDatabase, type Task } from '../../crds/index.ts'
import type { Identity } from '../workload/identity.ts'
import type { Observed as ObservedInstance } from '../workload/observed.ts'
import type { RestoringFacts } from './restoring.ts'

export type Observed = ObservedInstance & {
  /** The instance that is asked for, as the resource that asks for it. */
  database: ManagedDatabase
  identity: Identity
  /** Branches whose Branch object exists, tombstones included. */
  branches: Branch[]
  /** Of this very database, whatever has become of them; another one under its id has its own. */
  backups: Backup[]
  /** The restore that is asked for and has not come to its end for the database. */
  restoring: RestoringFacts | undefined
  /** The Task of status.operation. */
  task: Task | undefined
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether all that was asked had come into force when the status was written, and nothing else is asked since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
