/** What there is to say of a database's backups: only where something is asked that does not happen, or the last one failed. */
import { type Backup, snapshotRefusal } from '../../../crds/index.ts'
import { scheduleOf } from '../../backup/schedule/due.ts'
import { type Held, retentionOf } from '../../backup/schedule/retention.ts'
import { type Finding, no, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

/** The scheduled one that was asked for last, of those that have ended. */
function lastScheduled(backups: readonly Backup[]): Backup | undefined {
  const place = ({ metadata }: Backup) => `${metadata.creationTimestamp} ${metadata.name}`
  return backups
    .filter(({ spec, status }) => spec.purpose === 'scheduled' && status?.finishedAt !== undefined)
    .toSorted((left, right) => (place(left) < place(right) ? -1 : 1))
    .at(-1)
}

/** Of the one that was checked last, whoever asked for that: it tells of the database as well. */
function verificationFinding(backups: readonly Backup[]): Finding | undefined {
  const endedAt = ({ status }: Backup) => status?.verificationResult?.endedAt ?? ''
  const last = backups.toSorted((left, right) => (endedAt(left) < endedAt(right) ? -1 : 1)).at(-1)
  const { error, faults } = last?.status?.verificationResult ?? {}
  if (last === undefined || error === undefined) return undefined
  return faults === undefined
    ? no('LastBackupNotVerified', `a copy of backup ${last.metadata.name} could not be checked: ${error}`)
    : no('BackupDamaged', `a copy of backup ${last.metadata.name} is damaged, so the database may be as well: ${error}`)
}

export function backupsFinding({ database, backups, region }: Observed, now: number): Finding | undefined {
  const { spec, metadata } = database
  const { durable, schedule: asked } = spec.backup
  if (durable)
    return no('NotAvailable', 'durable backups are not taken by this version; nothing comes of spec.backup.durable')
  const schedule = scheduleOf(spec.backup, metadata.uid ?? '', 0, now)
  if (schedule.state === 'invalid') return no('ScheduleInvalid', `spec.backup.schedule: ${schedule.message}`)
  const refusal = snapshotRefusal(spec.region, region)
  if (asked !== undefined && schedule.state === 'on' && refusal !== undefined)
    return no(refusal.reason, `no backup is taken as spec.backup.schedule says: ${refusal.message}`)
  const last = lastScheduled(backups)
  if (last?.status?.phase === 'failed')
    return no(
      'LastBackupFailed',
      `the last scheduled backup, ${last.metadata.name}, failed: ${last.status.error ?? ''}`,
    )
  return verificationFinding(backups)
}

const whyHeld: Record<Held['why'], string> = {
  NewestVerified: 'is the newest verified one',
  BeforeFailedVerification: 'is the newest of before the first failed verification',
}

/** What is kept beyond its age or count because of verification. */
export function retentionFinding({ database, backups }: Observed, now: number): Finding | undefined {
  const { held } = retentionOf(backups, database.spec.backup, now)
  const [first] = held
  if (first === undefined) return undefined
  const each = held.map(({ backup, why }) => `backup ${backup.metadata.name} ${whyHeld[why]}`).join('; ')
  const { why } = held.find(one => one.why === 'BeforeFailedVerification') ?? first
  return yes(why, `${each}: kept beyond its retention until a later one is verified, or until you delete it`)
}
