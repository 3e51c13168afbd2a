/** The actions that are specific to branches. `OwnerAction` has the actions that databases and branches share. */
import type { Draft } from '../../cluster/index.ts'
import type { OwnerAction } from '../owner/kind.ts'
import type { BranchStatus } from './observed.ts'

/** A volume that the branch no longer uses. `claimUid` is undefined for a failed move's volume. */
export type Replaced = { incarnation: number; claimUid: string | undefined }

export type OwnAction =
  | { do: 'create-backup'; draft: Draft<'Backup'> }
  /** Requests the deletion of an expired branch: sets `spec.deletionRequestedAt`. */
  | { do: 'request-deletion'; at: string }
  /**
   * Deletes the branch's remaining objects. Lists these objects from the API server, because a cache can lag. Once no
   * object is left, writes `status` as the record of the deleted branch.
   */
  | { do: 'leave-record'; status: BranchStatus }
  /**
   * Deletes the previous volume after a move, or the new volume after a failed move. Writes `status` once no object is
   * left, or if `deleteReplaced` must keep the claim.
   */
  | { do: 'delete-replaced'; replaced: Replaced; status: BranchStatus }
  /** Deletes the record at the end of its retention. */
  | { do: 'delete-record' }

export type Action = OwnerAction | OwnAction

const own: Record<OwnAction['do'], true> = {
  'create-backup': true,
  'request-deletion': true,
  'leave-record': true,
  'delete-replaced': true,
  'delete-record': true,
}

export const isOwnAction = (action: Action): action is OwnAction => action.do in own
