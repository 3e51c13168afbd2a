/**
 * The due times for which a backup was already created. The name of a scheduled backup contains its due time. The
 * status of the database records the latest due time, so that a backup that a user deleted is not created again. Pure.
 */
import { type Backup, labels, type ManagedDatabase, type ManagedDatabaseStatus } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'

const timeIn = (dueAt: number): string => timestamp(dueAt).replaceAll(/[-:Z]/g, '').replace('T', '-')

export const scheduledName = (databaseName: string, dueAt: number): string =>
  `${databaseName}-scheduled-${timeIn(dueAt)}`

/** The name of a durable backup that is created with a hot one. Only the hot backup's name records the due time. */
export const durableName = (databaseName: string, dueAt: number): string => `${databaseName}-durable-${timeIn(dueAt)}`

/** When a scheduled backup was due, in ms since the epoch. Undefined for a backup whose name contains no such time. */
export function dueAtOf({ metadata, spec }: Pick<Backup, 'metadata' | 'spec'>): number | undefined {
  if (spec.purpose !== 'scheduled') return undefined
  const digits = metadata.name.slice(-15)
  const dueAt = Date.parse(digits.replace(/^(....)(..)(..)-(..)(..)(..)$/, '$1-$2-$3T$4:$5:$6Z'))
  if (Number.isNaN(dueAt)) return undefined
  return scheduledName(spec.databaseName, dueAt) === metadata.name ? dueAt : undefined
}

/** The due time in the status of the database. */
export function recordedAt(status: Pick<ManagedDatabaseStatus, 'scheduledBackupAt'> | undefined): number | undefined {
  const at = Date.parse(status?.scheduledBackupAt ?? '')
  return Number.isNaN(at) ? undefined : at
}

/**
 * The latest due time in the database's status or in the name of one of its backups. Later times than `now` in names
 * are ignored, because users who may create Backups choose their names.
 */
export function doneUpTo(
  status: ManagedDatabaseStatus | undefined,
  backups: readonly Backup[],
  now: number,
): number | undefined {
  const named = backups.map(dueAtOf).filter(dueAt => dueAt !== undefined && dueAt <= now)
  return [recordedAt(status), ...named]
    .filter(at => at !== undefined)
    .reduce<number | undefined>((latest, at) => Math.max(latest ?? at, at), undefined)
}

/** The status with the latest due time. The recorded time never decreases. */
export function withScheduledBackup(
  status: ManagedDatabaseStatus,
  backups: readonly Backup[],
  now: number,
): ManagedDatabaseStatus {
  const done = doneUpTo(status, backups, now)
  return done === undefined || done === recordedAt(status) ? status : { ...status, scheduledBackupAt: timestamp(done) }
}

/** Whether the due time of a backup is later than what its database records. */
export function isUnrecorded(backup: Backup, { status }: Pick<ManagedDatabase, 'status'>): boolean {
  const dueAt = dueAtOf(backup)
  return dueAt !== undefined && dueAt > (recordedAt(status) ?? Number.NEGATIVE_INFINITY)
}

/**
 * Whether the deletion of a backup waits until its database records the due time. `database`: the database with the
 * name in the backup's spec. If the database is being deleted, no backup is created again, so the deletion does not
 * wait.
 */
export function awaitsRecord(backup: Backup, database: ManagedDatabase | undefined, now: number): boolean {
  if (database === undefined || database.metadata.deletionTimestamp !== undefined) return false
  if (database.metadata.labels?.[labels.id] !== backup.spec.databaseId) return false
  return (dueAtOf(backup) ?? Number.POSITIVE_INFINITY) <= now && isUnrecorded(backup, database)
}
