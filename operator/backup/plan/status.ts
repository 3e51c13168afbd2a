/** The status of a backup in each phase. Pure. */
import type { Backup } from '../../../crds/index.ts'
import { shortened } from '../../../values/text.ts'
import { preciseTime, timestamp } from '../../../values/time.ts'
import { completed, type Finding, no, yes } from '../../objects/conditions.ts'
import { withFindings } from '../../objects/run-status.ts'
import { becameVolume } from '../snapshot.ts'
import type { Refusal } from './refusal.ts'

export type Status = NonNullable<Backup['status']>
type More = { DatabaseServing?: Finding }

export const notYet = no('NotCompleted', 'the backup is not completed')

/** Keeps the phase of a backup that has started. Otherwise sets `pending`. */
export const waiting = (backup: Backup, step: string, message: string, now: number, more: More = {}): Status =>
  withFindings(
    backup,
    { ...backup.status, phase: backup.status?.phase ?? 'pending' },
    { Ready: notYet, Progressing: yes(step, message), ...more },
    now,
  )

export const running = (backup: Backup, step: string, message: string, now: number, more: More = {}): Status =>
  withFindings(
    backup,
    { ...backup.status, phase: 'running', startedAt: backup.status?.startedAt ?? timestamp(now) },
    { Ready: notYet, Progressing: yes(step, message), ...more },
    now,
  )

export const finished = (backup: Backup, now: number): Status =>
  withFindings(
    backup,
    {
      ...backup.status,
      phase: 'completed',
      startedAt: backup.status?.startedAt ?? timestamp(now),
      finishedAt: preciseTime(now),
    },
    { Ready: yes(completed, 'the backup can be restored'), Progressing: no(completed, 'the backup is completed') },
    now,
  )

/** For a backup that is deleted while it is needed. `usedBy`: kind and name of the object that reads from it. */
export const inUse = (usedBy: string): Finding =>
  yes('InUse', `${usedBy} still reads from this backup: the operator deletes the backup after that`)

export const unrecorded: Finding = yes(
  'AwaitingRecord',
  "waiting until the database's status records this backup's due time",
)

export const failed = (backup: Backup, { reason, message }: Refusal, now: number): Status =>
  withFindings(
    backup,
    {
      ...backup.status,
      phase: 'failed',
      finishedAt: backup.status?.finishedAt ?? preciseTime(now),
      error: shortened(message, 1000),
    },
    { Ready: no(reason, message), Progressing: no(reason, message) },
    now,
  )

/** `claim`: the claim into whose volume the storage converted the snapshot. */
export const usedUp = (backup: Backup, claim: string, now: number): Status =>
  withFindings(
    backup,
    { ...backup.status },
    {
      Ready: no('BecameVolume', becameVolume(backup.metadata.name, claim)),
      Progressing: no(completed, 'the backup is completed'),
    },
    now,
  )
