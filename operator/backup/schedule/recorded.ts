/**
 * Which due times of a database's schedule need no backup any more. Pure. The name of a scheduled backup contains the
 * time it was due. The status of the database records the latest such time, so a backup that a user deleted is not
 * created again.
 */
import { type Backup, labels, type ManagedDatabase, type ManagedDatabaseStatus } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'

const timeIn = (dueAt: number): string => timestamp(dueAt).replaceAll(/[-:Z]/g, '').replace('T', '-')

export const scheduledName = (databaseName: string, dueAt: number): string =>
  `${databaseName}-scheduled-${timeIn(dueAt)}`

/** The name of a durable backup that is created together with a hot one: the schedule is recorded by the hot one. */
export const besideName = (databaseName: string, dueAt: number): string => `${databaseName}-durable-${timeIn(dueAt)}`

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
 * The latest due time that is recorded or that one of the database's backups has. Times after `now` in names are
 * ignored: a client that may create Backups chooses their names.
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

/** The status with the latest due time. It never decreases, and is not written if nothing is later. */
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
 * Whether a backup that is being deleted is kept until its database records when it was due. `database`: the one of that name.
 * Nothing is created any more for a database that is being deleted, so nothing waits for its record.
 */
export function awaitsRecord(backup: Backup, database: ManagedDatabase | undefined, now: number): boolean {
  if (database === undefined || database.metadata.deletionTimestamp !== undefined) return false
  if (database.metadata.labels?.[labels.id] !== backup.spec.databaseId) return false
  return (dueAtOf(backup) ?? Number.POSITIVE_INFINITY) <= now && isUnrecorded(backup, database)
}
