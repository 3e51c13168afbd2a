/** What the conditions report of a database's backups: a schedule that is not followed, a failure, and retention that is held. */
import { type Backup, snapshotRefusal } from '../../../crds/index.ts'
import { scheduleOf } from '../../backup/schedule/due.ts'
import { type Held, retentionOf } from '../../backup/schedule/retention.ts'
import { type Finding, no, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

/** The newest scheduled backup that has ended. */
function lastScheduled(backups: readonly Backup[]): Backup | undefined {
  const place = ({ metadata }: Backup) => `${metadata.creationTimestamp} ${metadata.name}`
  return backups
    .filter(({ spec, status }) => spec.purpose === 'scheduled' && status?.finishedAt !== undefined)
    .toSorted((left, right) => (place(left) < place(right) ? -1 : 1))
    .at(-1)
}

/** The result of the last verification, whoever requested it: a damaged copy may mean a damaged database. */
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

/** Backups that are kept beyond their age or count because of verification. */
export function retentionFinding({ database, backups }: Observed, now: number): Finding | undefined {
  const { held } = retentionOf(backups, database.spec.backup, now)
  const [first] = held
  if (first === undefined) return undefined
  const each = held.map(({ backup, why }) => `backup ${backup.metadata.name} ${whyHeld[why]}`).join('; ')
  const { why } = held.find(one => one.why === 'BeforeFailedVerification') ?? first
  return yes(why, `${each}: kept beyond its retention until a later one is verified, or until you delete it`)
}
