/** All that a pass knows of one database: its Postgres, and what is a database's alone. */
// @ts-nocheck

import { type Backup, type Branch, isInForce, type ManagedDatabase, type Task } from '../../crds/index.ts'
import type { Owner } from '../objects/ownership.ts'
import type { Observed as ObservedInstance } from '../workload/observed.ts'

/**
 * The id that children are named by. `unsettled`: the label must be written first, with the id given (that of the
 * children already there) or, without one, a new one. `contested`: a person has to say whose the data under it are.
 */
export type Identity =
  | { state: 'settled'; owner: Owner }
  | { state: 'unsettled'; id: string | undefined; why: string }
  | { state: 'contested'; why: string }

export type Observed = ObservedInstance & {
  /** The instance that is asked for, as the resource that asks for it. */
  database: ManagedDatabase
  identity: Identity
  /** Branches whose Branch object exists, tombstones included. */
  branches: Branch[]
  /** Of this very database, whatever has become of them; another one under its id has its own. */
  backups: Backup[]
  /** The Task of status.operation. */
  task: Task | undefined
  /** The Task that the operation annotation names. */
  annotatedTask: Task | undefined
}

/** Whether all that was asked had come into force when the status was written, and nothing else is asked since. */
export const isAtRest = (database: ManagedDatabase): boolean =>
  database.status?.operation === undefined && database.metadata.deletionTimestamp === undefined && isInForce(database)
