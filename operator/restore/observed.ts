/** The observed state of one restore: read by observe.ts, and the only input of plan.ts. */

import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import type { Backup, ManagedDatabase, RecoveryRecord, Restore } from '../../crds/index.ts'
import type { BackupSource } from '../backup/source.ts'
import type { MemberAction } from '../member/actions.ts'
import type { Stop } from '../member/pod/lock.ts'
import type { VolumeRecord } from '../objects/instance.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'

/** The Postgres that is to replace the serving one; it accepts no clients before that. */
export type Candidate = {
  /** The actions for it now. */
  actions: MemberAction[]
  /** Its claim is bound: the snapshot is no longer needed. */
  isBound: boolean
} & (
  | { state: 'making'; message: string }
  /** It has answered, is closed, and is rid of what was its source's. */
  | { state: 'ready'; volume: VolumeRecord }
  /** Nothing comes of it. */
  | { state: 'failed'; reason: string; message: string }
)

/** An object to be deleted once nothing runs on it. */
export type Leftover = {
  kind: 'StatefulSet' | 'ConfigMap' | 'Secret' | 'PersistentVolumeClaim' | 'Pod'
  name: string
  uid: string
}

export type Observed = {
  restore: Restore
  /** Undefined if no database has that name and id. */
  database: ManagedDatabase | undefined
  /** The database's annotation names this restore. */
  isRequested: boolean
  /** The name of the restore of the same database that runs before this one. */
  ahead: string | undefined
  /** The backup to restore; not read once the new volume serves. */
  backup: Backup | undefined
  source: BackupSource
  /** The part of the archive to restore from; undefined for a snapshot, and if the target cannot be recovered. */
  recovery?: RecoveryRecord | undefined
  /** The next number that no claim of the database has. */
  freeIncarnation: number
  candidate: Candidate | undefined
  /** Why the present data cannot be backed up; only determined before the restore starts. */
  prerestoreRefusal: string | undefined
  /** Backups and branches that need the previous Postgres running, except the prerestore backup. */
  suspensionBlock: SuspensionBlock | undefined
  /** The state of the old Postgres once it was ordered to stop. */
  old: Stop
  /** The lock of this restore on the old Postgres. */
  lock: Leftover | undefined
  /**
   * The backups with the names of those that it takes, of any owner. `after`: read once the new volume serves.
   */
  prerestore: Backup | undefined
  after: Backup | undefined
  /** For the incarnation that is not (or no longer) to serve: whether a pod remains, and which other objects. */
  leftovers: { hasPod: boolean; objects: Leftover[]; claim: PersistentVolumeClaim | undefined }
  /** Why nothing may be deleted by its age now. */
  clockDistrust: string | undefined
}
