/** The backups that a restore takes: of the data as they were, its anchor, and of what was restored. Pure. */
import type { Backup, Restore } from '../../crds/index.ts'
import { isTakenFor, type RestorePurpose, takenBy } from '../objects/operator-backups.ts'

/**
 * The name of a backup that a restore takes: no other restore's, not even of one that had its name before, whose anchor is of
 * another time.
 */
export const takenNameOf = ({ metadata }: Restore, purpose: RestorePurpose): string =>
  `${metadata.name.slice(0, 230)}-${(metadata.uid ?? '').slice(0, 8)}-${purpose}`

/**
 * Whether what stands under the anchor's name is the anchor. One that was completed before the old Postgres was told to stop is not:
 * it lacks what was written after it.
 */
export function isAnchorOf(restore: Restore, backup: Backup): boolean {
  const { fencedAt = '' } = restore.status ?? {}
  const { phase, finishedAt = '' } = backup.status ?? {}
  const isTooEarly = phase === 'completed' && !(Date.parse(finishedAt) >= Date.parse(fencedAt))
  return isTakenFor(backup, takenBy(restore, 'prerestore')) && !isTooEarly
}

/** For whoever has to clear the way. */
export const nameTaken = (name: string): string =>
  `the backup ${name} is in the way: it is there already, and not made by this restore`
