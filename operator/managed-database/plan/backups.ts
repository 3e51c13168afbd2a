/** The conditions about a database's backups: BackupsReady, Archiving and RetentionHeld. */
import { type Backup, backupKinds, snapshotRefusal } from '../../../crds/index.ts'
import { scheduleOf } from '../../backup/schedule/due.ts'
import { type Retained, retentionOf } from '../../backup/schedule/retention.ts'
import { conditionOf, type Finding, no, yes } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

/** The newest scheduled backup that has ended. */
function lastScheduled(backups: readonly Backup[]): Backup | undefined {
  const order = ({ metadata }: Backup) => `${metadata.creationTimestamp} ${metadata.name}`
  return backups
    .filter(({ spec, status }) => spec.purpose === 'scheduled' && status?.finishedAt !== undefined)
    .toSorted((left, right) => (order(left) < order(right) ? -1 : 1))
    .at(-1)
}

/** A damaged snapshot means that the volume may be damaged. Data of a durable backup may be damaged in the archive. */
const damage = { hot: 'is damaged, so the database may be as well', durable: 'from the archive is damaged' } as const

/** Reports a failed verification: the last one of each kind of backup counts, scheduled or requested. */
function verificationFinding(backups: readonly Backup[]): Finding | undefined {
  const endedAt = ({ status }: Backup) => status?.verificationResult?.endedAt ?? ''
  const inOrder = backups.toSorted((left, right) => (endedAt(left) < endedAt(right) ? -1 : 1))
  for (const kind of backupKinds) {
    const last = inOrder.findLast(({ spec }) => spec.kind === kind)
    const { error, faults } = last?.status?.verificationResult ?? {}
    if (last === undefined || error === undefined) continue
    const copy = `a copy of backup ${last.metadata.name}`
    return faults === undefined
      ? no('LastBackupNotVerified', `${copy} could not be checked: ${error}`)
      : no('BackupDamaged', `${copy} ${damage[kind]}: ${error}`)
  }
  return undefined
}

/** The condition Archiving. Keeps the previous finding until the operator has called the agent. */
export function archivingOf({ database, archiving }: Observed): Finding | undefined {
  const { spec, status } = database
  if (!spec.backup.durable) return undefined
  return (
    archiving ??
    conditionOf(status, 'Archiving') ??
    no('Unknown', 'the operator has not called the agent of the pod yet')
  )
}

export function backupsFinding({ database, backups, region }: Observed, now: number): Finding | undefined {
  const { spec, metadata } = database
  const { schedule: requested } = spec.backup
  const schedule = scheduleOf(spec.backup, metadata.uid ?? '', 0, now)
  if (schedule.state === 'invalid') return no('ScheduleInvalid', `spec.backup.schedule: ${schedule.message}`)
  const refusal = snapshotRefusal(spec.region, region)
  if (requested !== undefined && schedule.state === 'on' && refusal !== undefined)
    return no(refusal.reason, `spec.backup.schedule: no backup can be taken: ${refusal.message}`)
  const last = lastScheduled(backups)
  if (last?.status?.phase === 'failed')
    return no(
      'LastBackupFailed',
      `the last scheduled backup, ${last.metadata.name}, failed: ${last.status.error ?? ''}`,
    )
  return verificationFinding(backups)
}

const whyRetained: Record<Retained['why'], string> = {
  NewestVerified: 'is the newest verified one',
  BeforeFailedVerification: 'is the newest one older than the first that failed verification',
}

/** Reports backups that are past their retention and are kept because of verification. */
export function retentionFinding({ database, backups }: Observed, now: number): Finding | undefined {
  const { retained } = retentionOf(backups, database.spec.backup, now)
  const [first] = retained
  if (first === undefined) return undefined
  const each = retained.map(({ backup, why }) => `backup ${backup.metadata.name} ${whyRetained[why]}`).join('; ')
  const { why } = retained.find(one => one.why === 'BeforeFailedVerification') ?? first
  return yes(why, `${each}: kept beyond its retention until a later one is verified, or until you delete it`)
}
