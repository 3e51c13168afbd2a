/** The observed state of one restore: read by observe.ts, and the only input of plan.ts. */

import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import type { Backup, ManagedDatabase, RecoveryRecord, Restore } from '../../crds/index.ts'
import type { BackupSource } from '../backup/source.ts'
import type { MemberAction } from '../member/actions.ts'
import type { Stop } from '../member/pod/lock.ts'
import type { VolumeRecord } from '../objects/instance.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'

/** The Postgres on the restored volume. It accepts no clients before the switch. */
export type Candidate = {
  /** The actions for its objects in this pass. */
  actions: MemberAction[]
  /** Whether its claim is bound, so that the snapshot is no longer needed. */
  isBound: boolean
} & (
  | { state: 'creating'; message: string }
  /** Postgres has answered, refuses clients, and has none of its source's objects any more. */
  | { state: 'ready'; volume: VolumeRecord }
  /** The candidate cannot succeed. */
  | { state: 'failed'; reason: string; message: string }
)

/** An object that is deleted after the restore has ended or switched. */
export type Leftover = {
  kind: 'StatefulSet' | 'ConfigMap' | 'Secret' | 'PersistentVolumeClaim' | 'Pod'
  name: string
  uid: string
}

export type Observed = {
  restore: Restore
  /** Undefined if no database has that name and id. */
  database: ManagedDatabase | undefined
  /** Whether the database's annotation names this restore. */
  isRequested: boolean
  /** The name of the restore of the same database that runs before this one. */
  blockedBy: string | undefined
  /** The backup to restore; not read after the switch. */
  backup: Backup | undefined
  source: BackupSource
  /** The part of the archive to restore from; undefined for a snapshot, and if the target cannot be recovered. */
  recovery?: RecoveryRecord | undefined
  /** The number of the next volume: no claim and no restore of the database has it. */
  freeIncarnation: number
  candidate: Candidate | undefined
  /** Why the current data cannot be backed up; only determined before the restore starts. */
  prerestoreRefusal: string | undefined
  /** Backups and branches that need the previous Postgres running, except the prerestore backup. */
  suspensionBlock: SuspensionBlock | undefined
  /** Whether the old Postgres runs, is stopped, or is locked. `running` until the restore stops it. */
  oldPostgres: Stop
  /** The lock of this restore on the old Postgres. */
  lock: Leftover | undefined
  /** Backups with the names that this restore uses. They may have another owner. `after`: read after the switch. */
  prerestore: Backup | undefined
  after: Backup | undefined
  /** The remaining objects of the unused volume: the replaced one, or the one of a failed restore. */
  leftovers: { hasPod: boolean; objects: Leftover[]; claim: PersistentVolumeClaim | undefined }
  /** Why the clock is not trusted. If set, nothing is deleted because of its age. */
  clockDistrust: string | undefined
}
