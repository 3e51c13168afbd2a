/** The actions of a branch plan, besides those common to every owner. */
import type { Draft } from '../../cluster/index.ts'
import type { OwnerAction } from '../owner/kind.ts'
import type { BranchStatus } from './observed.ts'

/** A volume that does not serve any more, or never did. `claimUid`: undefined if it was never recorded. */
export type Replaced = { incarnation: number; claimUid: string | undefined }

export type OwnAction =
  | { do: 'create-backup'; draft: Draft<'Backup'> }
  /** The branch has expired: requests its deletion as the API would. */
  | { do: 'request-deletion'; at: string }
  /** Deletes the objects that the cluster itself still lists. Once none is left, writes this status as the record. */
  | { do: 'leave-record'; status: BranchStatus }
  /** After a move has ended, deletes the volume that does not serve. Once nothing of it is left, writes this status. */
  | { do: 'delete-replaced'; replaced: Replaced; status: BranchStatus }
  /** Deletes the record, which has been kept long enough. */
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
