/** What the plan for a branch can ask to be done: to its Postgres, and to the branch itself. */
import type { Draft } from '../../cluster/index.ts'
import type { Action as InstanceAction } from '../workload/actions.ts'
import type { BranchStatus } from './observed.ts'

export type Action =
  | InstanceAction
  /** Puts finalizer and id label on the branch; without an id, a new one. */
  | { do: 'identify'; id: string | undefined }
  | { do: 'create-backup'; draft: Draft<'Backup'> }
  /** Its time is over: has it deleted as the API would. */
  | { do: 'request-deletion'; at: string }
  /** Looks at the cluster itself for anything left, and if there is nothing leaves this record. */
  | { do: 'entomb'; status: BranchStatus }
  /** Looks at the cluster itself for anything left, and lets the branch go if there is nothing. */
  | { do: 'release' }
  /** Its record has been kept long enough. */
  | { do: 'purge' }
