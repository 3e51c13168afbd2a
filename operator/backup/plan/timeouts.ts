/**
 * How a backup waits for a database that does not serve, or does not answer although it is reported as serving, for
 * example while it restarts. It waits while the database is expected to serve again, and fails only by its deadline.
 * The condition DatabaseServing contains since when it waits, and stays until the checkpoint is done: a database that
 * answers now and then gets no new deadline. Pure.
 */
import { backoffMs } from '../../../cluster/informer/index.ts'
import type { Backup } from '../../../crds/index.ts'
import { conditionOf, no } from '../../objects/conditions.ts'
import type { CheckpointFacts, Source } from '../observed.ts'
import type { BackupDeadlines } from './actions.ts'
import { running, type Status, waiting } from './status.ts'

/** `since`: undefined until it is recorded. `retryAt`: when Postgres is queried again; undefined until it serves. */
type Lapse = { message: string; since: number | undefined; retryAt: number | undefined }

/** How soon a Postgres that did not answer is queried again. */
const pause = { minimumMs: 250, maximumMs: 5_000 }
/** A checkpoint that runs this long has reached Postgres; connecting takes less (postgres/connection.ts). */
const answeredMs = 8_000

/** Why no checkpoint is possible now; undefined if the database serves, as far as known. */
export function lapseOf({ database, isReachable }: Source, checkpoint: CheckpointFacts): Lapse | undefined {
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
 * How long the backups of a database that is being suspended wait; the suspension waits for them. The database is not
 * expected to serve again.
 */
const suspendingMs = 60_000

/**
 * Until when a backup waits: not shorter than the deadline of the operation that keeps the database from serving. A
 * restore may itself wait for the backup.
 */
export function waitsUntil(
  { metadata, status }: Backup,
  { database }: Source,
  { since = Number.POSITIVE_INFINITY }: Lapse,
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
 * `since`: when it was started. A repeated checkpoint is reported only after Postgres has accepted it, so that the Task
 * reports it once.
 */
export function checkpointing(backup: Backup, since: number, now: number): Status {
  const lapse = conditionOf(backup.status, 'DatabaseServing')
  if (lapse === undefined) return running(backup, 'Checkpointing', message, now)
  if (now < since + answeredMs) return awaiting(backup, lapse.message, now)
  return running(backup, 'Checkpointing', message, now, { DatabaseServing: no('NotServing', lapse.message) })
}

const message = 'running a checkpoint'
