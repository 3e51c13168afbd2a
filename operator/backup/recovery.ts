/**
 * Selects the base backup and the WAL that a restore or a branch is created from. The selection is made once, at the
 * start, and recorded in the status. Pure.
 */
import {
  type Backup,
  type ManagedDatabase,
  type RecoveryRecord,
  type RestoreTarget,
  recoveryOfBackup,
  recoveryTo,
  recoveryWindow,
} from '../../crds/index.ts'
import type { RecoveryTarget } from '../../instance/recovery/source.ts'
import type { PodSettings } from '../pod-settings.ts'
import type { BackupSource } from './source.ts'

type Refusal = { reason: string; message: string }
/** Undefined for a restore or branch from a snapshot. */
export type Recovery = { record: RecoveryRecord } | { refused: Refusal } | undefined

type Facts = {
  target: RestoreTarget
  /** The earlier selection. */
  recorded: RecoveryRecord | undefined
  database: ManagedDatabase | undefined
  /** The backup that the target names. */
  backup: Backup | undefined
  /** All backups of the database. */
  backups: readonly Backup[]
}

const refused = (reason: string, message: string): Recovery => ({ refused: { reason, message } })

export function recoveryOf({ target, recorded, database, backup, backups }: Facts): Recovery {
  if (recorded !== undefined) return { record: recorded }
  const { backupName, ...moment } = target
  if (backupName !== undefined && backup?.spec.kind !== 'durable') return undefined
  if (database === undefined) return undefined
  if (!database.spec.backup.durable)
    return refused('NoDurableTier', 'the durable tier of the database is off: set spec.backup.durable')
  if (backup !== undefined) {
    const record = recoveryOfBackup(backup)
    return record === undefined
      ? refused('BackupNotCompleted', `the backup ${backup.metadata.name} is not completed`)
      : { record }
  }
  const chosen = recoveryTo(recoveryWindow(database, backups), moment)
  return 'refused' in chosen ? refused('OutsideWindow', `spec.target: ${chosen.refused}`) : chosen
}

const targetOf = ({ time, lsn, pointName }: RestoreTarget): RecoveryTarget => {
  if (time !== undefined) return { kind: 'time', time }
  if (lsn !== undefined) return { kind: 'lsn', lsn }
  return pointName === undefined ? { kind: 'backup' } : { kind: 'name', name: pointName }
}

/** The volume's data source. */
export function recoverySource(
  { databaseId: id, target }: { databaseId: string; target: RestoreTarget },
  { backupId, incarnation, through, systemIdentifier, sizeBytes = 0 }: RecoveryRecord,
  { archive }: Pick<PodSettings, 'archive'>,
): BackupSource {
  if (archive === undefined) return { refused: { reason: 'NoArchive', message: 'the installation has no archive' } }
  const of = { archive: archive.url, id, incarnation, backup: backupId, target: targetOf(target) }
  const recover = through === undefined ? of : { ...of, through }
  return { source: { kind: 'archive', id, systemIdentifier, bytes: sizeBytes, recover } }
}

/**
 * The operator cannot see the progress of a recovery. The timeout for each byte of the base backup is based on 10
 * MiB/s.
 */
export const recoveryMs = (recovery: Pick<RecoveryRecord, 'sizeBytes'> | undefined): number =>
  ((recovery?.sizeBytes ?? 0) / (10 * 2 ** 20)) * 1000
