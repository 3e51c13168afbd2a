/** The actions that the plan of a restore can request. */
import type { Restore } from '../../crds/index.ts'
import type { MemberAction } from '../member/actions.ts'
import type { RestorePurpose } from '../objects/operator-backups.ts'
import type { Leftover } from './observed.ts'

export type Action =
  /** Adds the finalizer to the restore. */
  | { do: 'add-finalizer' }
  /** Sets the restore annotation on the database, so that the restore becomes the database's operation. */
  | { do: 'request-on-database' }
  | { do: 'take-backup'; name: string; purpose: RestorePurpose }
  | { do: 'candidate'; action: MemberAction }
  /** Prevents the stopped old Postgres from starting again. */
  | { do: 'lock' }
  | { do: 'delete'; leftover: Leftover }
  /** Removes the finalizer. */
  | { do: 'remove-finalizer' }
  /** Deletes the Restore object, after its database was deleted or its retention has passed. */
  | { do: 'delete-restore' }

export type Status = NonNullable<Restore['status']>
export type Plan = { actions: Action[]; status: Status; requeueAt?: number | undefined }

/** The interval for reading pods and objects that are not watched. */
export const recheckMs = 250
