/** All that a pass knows of one restore: gathered by observe.ts, decided upon by plan.ts, which reads nothing else. */

import type { PersistentVolumeClaim } from '../../cluster/index.ts'
import type { Backup, ManagedDatabase, Restore } from '../../crds/index.ts'
import type { BackupSource } from '../backup/source.ts'
import type { MemberAction } from '../member/actions.ts'
import type { Stop } from '../member/pod/lock.ts'
import type { VolumeRecord } from '../objects/instance.ts'
import type { SuspensionBlock } from '../objects/suspension-block.ts'

/** The Postgres that is to take the place of the one that serves, closed until it has. */
export type Candidate = {
  /** What is to be done about it now. */
  actions: MemberAction[]
  /** Its claim is bound: the snapshot is needed no more. */
  isBound: boolean
} & (
  | { state: 'making'; message: string }
  /** It has answered, is closed, and is rid of what was its source's. */
  | { state: 'ready'; volume: VolumeRecord }
  /** Nothing comes of it. */
  | { state: 'failed'; reason: string; message: string }
)

/** An object that is to be taken away, once nothing runs on it. */
export type Left = { kind: 'StatefulSet' | 'ConfigMap' | 'PersistentVolumeClaim' | 'Pod'; name: string; uid: string }

export type Observed = {
  restore: Restore
  /** Undefined where there is no database of that name and id. */
  database: ManagedDatabase | undefined
  /** Its annotation names this restore. */
  isAsked: boolean
  /** The restore of the same database that comes before this one, by name. */
  ahead: string | undefined
  /** The backup that it returns to; not looked at once the new volume serves. */
  backup: Backup | undefined
  source: BackupSource
  /** The next number that no claim of the database has. */
  freeIncarnation: number
  candidate: Candidate | undefined
  /** Why the present data cannot be backed up; only known before it begins. */
  unanchorable: string | undefined
  /** Backups and branches that need the previous Postgres running; the anchor is none of them. */
  suspensionBlock: SuspensionBlock | undefined
  /** How the old Postgres stands, once it was told to stop. */
  old: Stop
  /** The lock that this restore holds on the old Postgres. */
  lock: Left | undefined
  /** What stands under the names of the backups that it takes, whoever made it. `after`: looked at once the new volume serves. */
  anchor: Backup | undefined
  after: Backup | undefined
  /** Of the incarnation that is not to serve (any more): whether a pod is left, and what else. */
  leftovers: { hasPod: boolean; objects: Left[]; claim: PersistentVolumeClaim | undefined }
  /** Why nothing may be deleted by its age now. */
  clockDoubt: string | undefined
}
