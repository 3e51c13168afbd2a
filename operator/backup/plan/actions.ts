/** What a plan can ask to be done, and how long it waits. */
import type { CutOf } from '../observed.ts'

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
  /** Lets the backup go: its snapshot is gone. */
  | { do: 'release' }

/** How long each step may stand still, in ms. */
export type BackupDeadlines = {
  /** The database does not answer. */
  servingMs: number
  /** The storage says that it cannot. */
  errorMs: number
  /** The snapshot is not cut. */
  cutMs: number
  /** It is cut, and cannot be used: some storages copy it elsewhere first. */
  readyMs: number
  /** A copy is not checked, however small it is. */
  verificationMs: number
}
