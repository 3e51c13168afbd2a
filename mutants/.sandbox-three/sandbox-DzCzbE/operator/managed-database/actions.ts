/** What the plan for a database can ask to be done: to its Postgres, and to the database itself. */
// @ts-nocheck

import type { Action as InstanceAction } from '../workload/actions.ts'

export type Action =
  | InstanceAction
  /** Puts finalizer and id label on the database; without an id, a new one. */
  | { do: 'identify'; id: string | undefined }
  /** Looks at the cluster itself for anything left, and lets the database go if there is nothing. */
  | { do: 'finish-deletion' }
