/** What there is to say of a database's backups: only where something is asked that does not happen, or the last one failed. */
// @ts-nocheck

import { type Backup, snapshotRefusal } from '../../../crds/index.ts'
import { scheduleOf } from '../../backup/schedule/due.ts'
import { type Finding, no } from '../../objects/conditions.ts'
import type { Observed } from '../observed.ts'

/** The scheduled one that was asked for last, of those that have ended. */
function lastScheduled(backups: readonly Backup[]): Backup | undefined {
  const place = ({ metadata }: Backup) => `${metadata.creationTimestamp} ${metadata.name}`
  return backups
    .filter(({ spec, status }) => spec.purpose === 'scheduled' && status?.finishedAt !== undefined)
    .toSorted((left, right) => (place(left) < place(right) ? -1 : 1))
    .at(-1)
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
  return last?.status?.phase === 'failed'
    ? no('LastBackupFailed', `the last scheduled backup, ${last.metadata.name}, failed: ${last.status.error ?? ''}`)
    : undefined
}
