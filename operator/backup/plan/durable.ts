/**
 * The plan of a durable backup: a base backup that the archiving agent sends to the archive. Its path in the archive is
 * recorded first, so that all its objects are found and deleted if it fails or is deleted. A restarted agent has lost
 * its jobs. Then the operator requests the job again, and the agent does not send the same object twice. Pure.
 */
import type { Backup } from '../../../crds/index.ts'
import { type Finding, yes } from '../../objects/conditions.ts'
import { withFindings } from '../../objects/run-status.ts'
import type { DurableFacts, Observed, Source } from '../observed.ts'
import type { Action, BackupDeadlines, Plan } from './actions.ts'
import { type Refusal, refusalOf } from './refusal.ts'
import { failed, finished, inUse, running, type Status, unrecorded, waiting } from './status.ts'
import { awaiting, lapseOf, waitsUntil } from './timeouts.ts'
import { planVerification } from './verification.ts'

/** The longest interval between two queries of a working agent. */
const jobMs = 5_000
/** How soon a newly requested job is queried. */
const soonMs = 1_000

const still = (status: Status, requeueAt?: number): Plan => ({ actions: [], status, requeueAt })
const removal: Action[] = [{ do: 'delete-archived' }]

const noArchive = yes(
  'NoArchive',
  'this installation no longer has an archive: configure the archive that contains the backup, or remove the finalizer and keep the objects there',
)

/**
 * Deletes the backup from the archive. The finalizer stays until the archive has confirmed the deletion of all objects.
 */
export function durableTeardown(observed: Observed, now: number): Plan {
  const { backup, awaitsRecord, durable, usedBy } = observed
  const { status = {} } = backup
  const progressing = (finding: Finding) => still(withFindings(backup, status, { Progressing: finding }, now))
  if (usedBy !== undefined) return progressing(inUse(usedBy))
  if (observed.verification.isThere) return { ...still(status), actions: [{ do: 'end-verification' }] }
  if (status.incarnation !== undefined && durable?.hasArchive !== true) return progressing(noArchive)
  if (status.incarnation !== undefined)
    return { ...still(status), actions: awaitsRecord ? removal : [...removal, { do: 'release' }] }
  if (awaitsRecord) return progressing(unrecorded)
  return { ...still(status), actions: [{ do: 'release' }] }
}

/** The objects of a failed backup are deleted from the archive. A completed backup may be verified on a copy. */
export function durableEnded(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, isTaskOver, durable } = observed
  const { taskId: _, ...rest } = backup.status ?? {}
  const status: Status = isTaskOver ? rest : (backup.status ?? {})
  const isWaste = status.phase === 'failed' && status.incarnation !== undefined && durable?.hasArchive === true
  const checked = planVerification(observed, now, deadlines)
  if (!isWaste)
    return { actions: checked.actions, status: { ...status, ...checked.status }, requeueAt: checked.requeueAt }
  return { ...still({ ...status, incarnation: undefined }), actions: removal }
}

export function durableUnderWay(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, source, durable } = observed
  const fail = (reason: string, message: string) => still(failed(backup, { reason, message }, now))
  const refusal = refusalOf(observed)
  if (refusal !== undefined) return still(failed(backup, refusal, now))
  if (source === undefined || durable === undefined) return still(backup.status ?? {})
  const recorded = backup.status?.incarnation
  if (recorded !== undefined && durable.incarnation !== undefined && recorded !== durable.incarnation)
    return fail('OtherData', 'a restore has replaced the volume in the meantime')
  if (recorded === undefined && observed.ahead !== undefined)
    return still(
      waiting(
        backup,
        'Queued',
        `waiting for ${observed.ahead}: one durable backup of a database is taken at a time`,
        now,
      ),
    )
  const soonest = Math.min(jobMs, deadlines.durableStallMs / 3)
  const lapse = lapseOf(source, observed.checkpoint) ?? unanswered(durable)
  if (lapse !== undefined) {
    const until = waitsUntil(backup, source, lapse, now, deadlines)
    if (now >= until) return fail('DatabaseNotServing', lapse.message)
    return still(awaiting(backup, lapse.message, now), Math.min(until, now + soonest))
  }
  if (durable.pod === 'unprepared')
    return fail('NotArchiving', 'the database archives after its next restart: restart it, then take the backup')
  const { incarnation } = durable
  if (recorded === undefined)
    return still({ ...running(backup, 'Copying', 'requesting a base backup from the agent', now), incarnation }, now)
  return ofJob(observed, source, durable.job, now, deadlines)
}

const unanswered = ({ job }: DurableFacts) =>
  job.state === 'unanswered'
    ? { message: `the agent of Postgres does not answer: ${job.message}`, since: undefined, retryAt: undefined }
    : undefined

function ofJob(
  { backup }: Observed,
  source: Source,
  job: DurableFacts['job'],
  now: number,
  { durableStallMs, durableMs }: BackupDeadlines,
): Plan {
  const fail = (refusal: Refusal) => still(failed(backup, refusal, now))
  const startedAt = Date.parse(backup.status?.startedAt ?? '')
  const isOverdue = now - startedAt >= durableMs
  switch (job.state) {
    case 'completed':
      return still({ ...finished(backup, now), ...resultOf(source, job, backup) })
    case 'failed':
      return fail({ reason: 'CopyFailed', message: `the base backup failed: ${job.error}` })
    case 'running': {
      const stalledMs = now - Math.max(job.progressAt, startedAt)
      if (stalledMs >= durableStallMs)
        return fail({ reason: 'Stalled', message: `no progress for ${Math.round(stalledMs / 1000)} s` })
      return still(running(backup, 'Copying', progressOf(job), now), now + Math.min(jobMs, durableStallMs / 3))
    }
    default:
      if (isOverdue)
        return fail({ reason: 'Stalled', message: 'the agent repeatedly lost the job, for example by restarts' })
      return {
        actions: [{ do: 'begin-durable' }],
        status: running(backup, 'Copying', 'requesting a base backup from the agent', now),
        requeueAt: now + soonMs,
      }
  }
}

/** Rounded down to 10 %, so that progress changes the status at most ten times. */
const progressOf = ({ bytes, estimate }: { bytes: number; estimate: number }): string => {
  const tenth = estimate === 0 ? 0 : Math.min(9, Math.floor((bytes / estimate) * 10))
  return `copying to the archive: ${tenth * 10} %`
}

function resultOf(
  { database }: Source,
  { start, end, endedAt, bytes }: Extract<DurableFacts['job'], { state: 'completed' }>,
  backup: Backup,
): Partial<Status> {
  return {
    incarnation: backup.status?.incarnation,
    cutAt: endedAt,
    startLsn: start.position,
    endLsn: end.position,
    timeline: start.timeline,
    systemIdentifier: database.status?.volume?.systemIdentifier,
    pgVersion: database.spec.pgVersion,
    region: database.spec.region,
    sizeBytes: bytes,
  }
}
