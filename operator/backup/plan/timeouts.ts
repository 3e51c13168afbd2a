/**
 * How long a backup waits for a database that is not Ready, or that is Ready but does not answer, for example during a
 * restart. The backup fails at the deadline. The condition DatabaseServing records when the wait began. It stays until
 * the checkpoint is done, so that a database that answers only sometimes gets no new deadline. Pure.
 */
import { backoffMs } from '../../../cluster/informer/index.ts'
import type { Backup } from '../../../crds/index.ts'
import { conditionOf, no } from '../../objects/conditions.ts'
import type { CheckpointFacts, Source } from '../observed.ts'
import type { BackupDeadlines } from './actions.ts'
import { running, type Status, waiting } from './status.ts'

/** `since`: undefined until it is recorded. `retryAt`: when Postgres is queried again; undefined until it is Ready. */
type Unavailability = { message: string; since: number | undefined; retryAt: number | undefined }

/** The delay before a Postgres that did not answer is queried again. */
const pause = { minimumMs: 250, maximumMs: 5_000 }
/** Connecting takes less time (postgres/connection.ts), so Postgres has accepted a checkpoint that runs this long. */
const answeredMs = 8_000

/** Why no checkpoint is possible now; undefined if the database is Ready and no attempt went unanswered. */
export function unavailabilityOf(
  { database, isReachable }: Source,
  checkpoint: CheckpointFacts,
): Unavailability | undefined {
  const { status, metadata } = database
  const ready = conditionOf(status, 'Ready')
  if (ready?.status === 'False')
    return {
      message: `the database does not serve: ${ready.message}`,
      since: Date.parse(ready.lastTransitionTime),
      retryAt: undefined,
    }
  if (ready?.status !== 'True' || status?.volume === undefined)
    return {
      message: 'the database does not serve yet',
      since: Date.parse(metadata.creationTimestamp ?? '') || 0,
      retryAt: undefined,
    }
  if (!isReachable) return { message: 'the database does not serve yet', since: undefined, retryAt: undefined }
  if (checkpoint.state !== 'unanswered') return undefined
  const { message, at, failures } = checkpoint
  return {
    message: `the database does not answer: ${message}`,
    since: undefined,
    retryAt: at + backoffMs(failures, pause, () => 1),
  }
}

/**
 * How long a backup of a database that is being suspended waits for it. The suspension waits for the backup, and the
 * database will not become Ready.
 */
const suspendingMs = 60_000

/**
 * When the wait of a backup ends: not before the deadline of the database's running operation. The deadline of a
 * restore does not count, because a restore may wait for the backup.
 */
export function waitsUntil(
  { metadata, status }: Backup,
  { database }: Source,
  { since = Number.POSITIVE_INFINITY }: Unavailability,
  now: number,
  { servingMs }: BackupDeadlines,
): number {
  const recorded = Date.parse(conditionOf(status, 'DatabaseServing')?.lastTransitionTime ?? '')
  const requested = Date.parse(metadata.creationTimestamp ?? '')
  const began = Math.min(Math.max(since, requested), Number.isNaN(recorded) ? now : recorded)
  if (database.kind === 'Branch') return began + servingMs
  if (database.spec.suspended) return began + Math.min(servingMs, suspendingMs)
  const { name, deadlineAt } = database.status?.operation ?? {}
  const operationUntil = name === 'restore-managed' ? 0 : Date.parse(deadlineAt ?? '') || 0
  return Math.max(began + servingMs, operationUntil)
}

export const awaiting = (backup: Backup, message: string, now: number): Status =>
  waiting(backup, 'AwaitingDatabase', message, now, { DatabaseServing: no('NotServing', message) })

/**
 * `since`: when the checkpoint was started. After an unanswered attempt, a checkpoint is reported only once Postgres
 * has accepted it. So the Task reports it once.
 */
export function checkpointing(backup: Backup, since: number, now: number): Status {
  const unavailability = conditionOf(backup.status, 'DatabaseServing')
  if (unavailability === undefined) return running(backup, 'Checkpointing', message, now)
  if (now < since + answeredMs) return awaiting(backup, unavailability.message, now)
  return running(backup, 'Checkpointing', message, now, { DatabaseServing: no('NotServing', unavailability.message) })
}

const message = 'running a checkpoint'
