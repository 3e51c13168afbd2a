/** What the plan for a branch can request of the branch itself, besides what it can of every owner. */
import type { Draft } from '../../cluster/index.ts'
import type { OwnerAction } from '../owner/kind.ts'
import type { BranchStatus } from './observed.ts'

export type OwnAction =
  | { do: 'create-backup'; draft: Draft<'Backup'> }
  /** The branch has expired: requests its deletion as the API would. */
  | { do: 'request-deletion'; at: string }
  /** Deletes what the cluster itself still lists, and leaves this status as a record once nothing is left. */
  | { do: 'leave-record'; status: BranchStatus }
  /** Deletes the record, which has been kept long enough. */
  | { do: 'delete-record' }

export type Action = OwnerAction | OwnAction

const own: Record<OwnAction['do'], true> = {
  'create-backup': true,
  'request-deletion': true,
  'leave-record': true,
  'delete-record': true,
}

export const isOwnAction = (action: Action): action is OwnAction => action.do in own
