/** What the plan for a restore can ask to be done. */
import type { Restore } from '../../crds/index.ts'
import type { MemberAction } from '../member/actions.ts'
import type { RestorePurpose } from '../objects/operator-backups.ts'
import type { Left } from './observed.ts'

export type Action =
  /** Puts the finalizer on the restore. */
  | { do: 'identify' }
  /** Has the database ask for this restore, so that it is its operation. */
  | { do: 'ask'; backupName: string }
  | { do: 'take-backup'; name: string; purpose: RestorePurpose }
  | { do: 'candidate'; action: MemberAction }
  /** Keeps the old Postgres from starting, which has stopped. */
  | { do: 'lock' }
  | { do: 'delete'; left: Left }
  /** Lets the restore go. */
  | { do: 'release' }
  /** Deletes the restore itself: its database is gone, or its record has been kept long enough. */
  | { do: 'forget' }

export type Status = NonNullable<Restore['status']>
export type Plan = { actions: Action[]; status: Status; wakeAt?: number | undefined }

/** How soon pods and objects that nobody follows are looked at again. */
export const lookMs = 250
