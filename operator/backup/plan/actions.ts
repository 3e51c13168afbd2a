/** The actions of a plan, and its timeouts. */
import type { SnapshotSource } from '../observed.ts'
import type { Status } from './status.ts'

export type Action =
  /** Adds the finalizer and the id label to the backup. Creates an id if `id` is undefined. */
  | { do: 'identify'; id: string | undefined }
  | { do: 'checkpoint' }
  | { do: 'create-snapshot'; of: SnapshotSource }
  | { do: 'delete-snapshot'; name: string; uid: string }
  /** Creates a copy of the backup, and the pod that verifies the copy. */
  | { do: 'begin-verification' }
  /** Deletes the copy and the verification pod. */
  | { do: 'end-verification' }
  /** Requests a base backup from the archiving agent in the Postgres pod. */
  | { do: 'begin-durable' }
  /** Cancels the agent's job and deletes the backup's objects in the archive. */
  | { do: 'delete-archived' }
  /** Removes the finalizer. */
  | { do: 'remove-finalizer' }

/** The timeout of each step, in ms. */
export type BackupDeadlines = {
  /** How long a backup waits for a database that does not serve. */
  servingMs: number
  /** How long a snapshot may report an error. */
  errorMs: number
  /** How long the storage may need to take a snapshot. */
  cutMs: number
  /** How long a taken snapshot may be not ready. Some storages copy it first. */
  readyMs: number
  /** How long a verification may take, plus a time for each byte. */
  verificationMs: number
  /** How long a durable backup may make no progress. */
  durableStallMs: number
  /** After this time a durable backup fails if its agent has lost the job again, for example by a restart. */
  durableMs: number
}

export type Plan = {
  actions: Action[]
  status: Status
  /** When to run again even without an event, in ms since the epoch. */
  requeueAt: number | undefined
}
