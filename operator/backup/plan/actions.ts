/** The actions of a plan, and its timeouts. */
import type { CutOf } from '../observed.ts'
import type { Status } from './status.ts'

export type Action =
  /** Puts finalizer and id label on the backup; without an id, a new one. */
  | { do: 'identify'; id: string | undefined }
  | { do: 'checkpoint' }
  | { do: 'create-snapshot'; of: CutOf }
  | { do: 'delete-snapshot'; name: string; uid: string }
  /** Makes a copy of it, and the pod that checks that. */
  | { do: 'begin-verification' }
  /** Takes away what was made to check a copy. */
  | { do: 'end-verification' }
  /** Asks the agent beside Postgres for a base backup. */
  | { do: 'begin-durable' }
  /** Ends the job of the agent, and deletes what the archive has of the backup. */
  | { do: 'delete-archived' }
  /** Lets the backup go: its snapshot is gone. */
  | { do: 'release' }

/** The timeout of each step, in ms. */
export type BackupDeadlines = {
  /** The database does not answer. */
  servingMs: number
  /** The storage reports that it cannot take it. */
  errorMs: number
  /** The snapshot is not cut. */
  cutMs: number
  /** It is cut, but not usable: some storages first copy it elsewhere. */
  readyMs: number
  /** A copy is not verified, even a small one. */
  verificationMs: number
  /** The agent makes no progress with a durable backup. */
  durableStallMs: number
  /** A durable backup has not ended although the agent repeatedly started it again. */
  durableMs: number
}

export type Plan = {
  actions: Action[]
  status: Status
  /** When to run again even without an event, in ms since the epoch. */
  requeueAt: number | undefined
}
