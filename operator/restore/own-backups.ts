/**
 * The backups that a restore takes: the prerestore backup (its anchor) with the data from before, and the postrestore
 * backup with the restored data. Pure.
 */
import type { Backup, Restore } from '../../crds/index.ts'
import { isTakenFor, type RestorePurpose, takenBy } from '../objects/operator-backups.ts'

/**
 * The name of a backup that a restore takes. It differs for every restore, even from that of an earlier restore with
 * the same name, whose backup is older.
 */
export const takenNameOf = ({ metadata }: Restore, purpose: RestorePurpose): string =>
  `${metadata.name.slice(0, 230)}-${(metadata.uid ?? '').slice(0, 8)}-${purpose}`

/**
 * Whether the backup with the prerestore backup's name is the prerestore backup. One that was completed before the old
 * Postgres was ordered to stop is not: it lacks later writes.
 */
export function isPrerestoreOf(restore: Restore, backup: Backup): boolean {
  const { fencedAt = '' } = restore.status ?? {}
  const { phase, finishedAt = '' } = backup.status ?? {}
  const isTooEarly = phase === 'completed' && !(Date.parse(finishedAt) >= Date.parse(fencedAt))
  return isTakenFor(backup, takenBy(restore, 'prerestore')) && !isTooEarly
}

/** For the user who has to delete or rename it. */
export const nameTaken = (name: string): string =>
  `the backup ${name} is in the way: it already exists, and was not created by this restore`
