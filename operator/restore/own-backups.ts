/**
 * The backups that a restore takes: the prerestore backup (`anchor` in the status) of the old data, and the postrestore
 * backup of the restored data. Pure.
 */
import type { Backup, Restore } from '../../crds/index.ts'
import { isTakenFor, type RestorePurpose, takenBy } from '../objects/operator-backups.ts'

/**
 * The name of a backup that a restore takes. It contains a part of the Restore's uid, so that a later Restore with the
 * same name does not use an old backup.
 */
export const takenNameOf = ({ metadata }: Restore, purpose: RestorePurpose): string =>
  `${metadata.name.slice(0, 230)}-${(metadata.uid ?? '').slice(0, 8)}-${purpose}`

/**
 * Whether this restore took the backup, after it had ordered the old Postgres to stop. A backup that completed earlier
 * lacks later writes.
 */
export function isPrerestoreOf(restore: Restore, backup: Backup): boolean {
  const { fencedAt = '' } = restore.status ?? {}
  const { phase, finishedAt = '' } = backup.status ?? {}
  const isTooEarly = phase === 'completed' && !(Date.parse(finishedAt) >= Date.parse(fencedAt))
  return isTakenFor(backup, takenBy(restore, 'prerestore')) && !isTooEarly
}

export const nameTaken = (name: string): string =>
  `the backup ${name} already exists and was not created by this restore`
