/** The actions that the plan of a restore can request. */
import type { Restore } from '../../crds/index.ts'
import type { MemberAction } from '../member/actions.ts'
import type { RestorePurpose } from '../objects/operator-backups.ts'
import type { Leftover } from './observed.ts'

export type Action =
  /** Adds the finalizer to the restore. */
  | { do: 'identify' }
  /** Has the database ask for this restore, so that it is its operation. */
  | { do: 'ask' }
  | { do: 'take-backup'; name: string; purpose: RestorePurpose }
  | { do: 'candidate'; action: MemberAction }
  /** Keeps the old Postgres from starting, which has stopped. */
  | { do: 'lock' }
  | { do: 'delete'; leftover: Leftover }
  /** Lets the restore go. */
  | { do: 'release' }
  /** Deletes the restore itself: its database is gone, or its record has been kept long enough. */
  | { do: 'forget' }

export type Status = NonNullable<Restore['status']>
export type Plan = { actions: Action[]; status: Status; requeueAt?: number | undefined }

/** How soon pods and objects that are not watched are read again. */
export const recheckMs = 250
