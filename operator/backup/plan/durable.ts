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
import { awaiting, unavailabilityOf, waitsUntil } from './timeouts.ts'
import { planVerification } from './verification.ts'

/** The longest interval between two queries of a working agent. */
const jobMs = 5_000
/** How soon a newly requested job is queried. */
const soonMs = 1_000

const statusOnly = (status: Status, requeueAt?: number): Plan => ({ actions: [], status, requeueAt })
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
  const progressing = (finding: Finding) => statusOnly(withFindings(backup, status, { Progressing: finding }, now))
  if (usedBy !== undefined) return progressing(inUse(usedBy))
  if (observed.verification.hasObjects) return { ...statusOnly(status), actions: [{ do: 'end-verification' }] }
  if (status.incarnation !== undefined && durable?.hasArchive !== true) return progressing(noArchive)
  if (status.incarnation !== undefined)
    return { ...statusOnly(status), actions: awaitsRecord ? removal : [...removal, { do: 'remove-finalizer' }] }
  if (awaitsRecord) return progressing(unrecorded)
  return { ...statusOnly(status), actions: [{ do: 'remove-finalizer' }] }
}

/** The objects of a failed backup are deleted from the archive. A completed backup may be verified on a copy. */
export function durableEnded(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, hasTaskEnded, durable } = observed
  const { taskId: _, ...rest } = backup.status ?? {}
  const status: Status = hasTaskEnded ? rest : (backup.status ?? {})
  const mustDelete = status.phase === 'failed' && status.incarnation !== undefined && durable?.hasArchive === true
  const checked = planVerification(observed, now, deadlines)
  if (!mustDelete)
    return { actions: checked.actions, status: { ...status, ...checked.status }, requeueAt: checked.requeueAt }
  return { ...statusOnly({ ...status, incarnation: undefined }), actions: removal }
}

export function durableUnderWay(observed: Observed, now: number, deadlines: BackupDeadlines): Plan {
  const { backup, source, durable } = observed
  const fail = (reason: string, message: string) => statusOnly(failed(backup, { reason, message }, now))
  const refusal = refusalOf(observed)
  if (refusal !== undefined) return statusOnly(failed(backup, refusal, now))
  if (source === undefined || durable === undefined) return statusOnly(backup.status ?? {})
  const recorded = backup.status?.incarnation
  if (recorded !== undefined && durable.incarnation !== undefined && recorded !== durable.incarnation)
    return fail('OtherData', 'a restore has replaced the volume in the meantime')
  if (recorded === undefined && observed.blockedBy !== undefined)
    return statusOnly(
      waiting(
        backup,
        'Queued',
        `waiting for ${observed.blockedBy}: one durable backup of a database is taken at a time`,
        now,
      ),
    )
  const soonest = Math.min(jobMs, deadlines.durableStallMs / 3)
  const unavailability = unavailabilityOf(source, observed.checkpoint) ?? unanswered(durable)
  if (unavailability !== undefined) {
    const until = waitsUntil(backup, source, unavailability, now, deadlines)
    if (now >= until) return fail('DatabaseNotServing', unavailability.message)
    return statusOnly(awaiting(backup, unavailability.message, now), Math.min(until, now + soonest))
  }
  if (durable.pod === 'unprepared')
    return fail('NotArchiving', 'the database archives after its next restart: restart it, then take the backup')
  const { incarnation } = durable
  if (recorded === undefined)
    return statusOnly(
      { ...running(backup, 'Copying', 'requesting a base backup from the agent', now), incarnation },
      now,
    )
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
  const fail = (refusal: Refusal) => statusOnly(failed(backup, refusal, now))
  const startedAt = Date.parse(backup.status?.startedAt ?? '')
  const isOverdue = now - startedAt >= durableMs
  switch (job.state) {
    case 'completed':
      return statusOnly({ ...finished(backup, now), ...resultOf(source, job, backup) })
    case 'failed':
      return fail({ reason: 'CopyFailed', message: `the base backup failed: ${job.error}` })
    case 'running': {
      const stalledMs = now - Math.max(job.progressAt, startedAt)
      if (stalledMs >= durableStallMs)
        return fail({ reason: 'Stalled', message: `no progress for ${Math.round(stalledMs / 1000)} s` })
      return statusOnly(running(backup, 'Copying', progressOf(job), now), now + Math.min(jobMs, durableStallMs / 3))
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
