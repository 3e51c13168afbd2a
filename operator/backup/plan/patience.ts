/**
 * How a backup waits for a database that does not serve, or does not answer although it is said to serve, such as while it restarts.
 * It waits while the database is expected to serve again, and fails only by its deadline. Since when it waits is in the condition
 * DatabaseServing, which stays until there is a checkpoint: a database that answers now and then gets no new deadline. Pure.
 */
import { backoffMs } from '../../../cluster/informer/index.ts'
import type { Backup } from '../../../crds/index.ts'
import { conditionOf, no } from '../../objects/conditions.ts'
import type { CheckpointFacts, Source } from '../observed.ts'
import type { BackupDeadlines } from './actions.ts'
import { running, type Status, waiting } from './status.ts'

/** `since`: undefined for as long as nobody recorded it. `askAt`: when Postgres is asked again; undefined until it serves. */
type Lapse = { message: string; since: number | undefined; askAt: number | undefined }

/** How soon a Postgres that did not answer is asked again. */
const pause = { minimumMs: 250, maximumMs: 5_000 }
/** A checkpoint that runs for so long got an answer; connecting takes less (postgres/connection.ts). */
const answeredMs = 8_000

/** Why no checkpoint can be had now; undefined where the database serves, as far as anybody knows. */
export function lapseOf({ database, isReachable }: Source, checkpoint: CheckpointFacts): Lapse | undefined {
  const { status, metadata } = database
  const ready = conditionOf(status, 'Ready')
  if (ready?.status === 'False')
    return {
      message: `the database does not serve: ${ready.message}`,
      since: Date.parse(ready.lastTransitionTime),
      askAt: undefined,
    }
  if (ready?.status !== 'True' || status?.volume === undefined)
    return {
      message: 'the database does not serve yet',
      since: Date.parse(metadata.creationTimestamp ?? '') || 0,
      askAt: undefined,
    }
  if (!isReachable) return { message: 'the database does not serve yet', since: undefined, askAt: undefined }
  if (checkpoint.state !== 'unanswered') return undefined
  const { message, at, failures } = checkpoint
  return {
    message: `the database does not answer: ${message}`,
    since: undefined,
    askAt: at + backoffMs(failures, pause, () => 1),
  }
}

/** Nobody expects a database to serve that is being suspended: how long its backups wait, which the suspension waits for. */
const suspendingMs = 60_000

/**
 * Until when a backup waits: no shorter than the operation may take that keeps the database from serving. A restore may itself wait
 * for the backup.
 */
export function waitsUntil(
  { metadata, status }: Backup,
  { database }: Source,
  { since = Number.POSITIVE_INFINITY }: Lapse,
  now: number,
  { servingMs }: BackupDeadlines,
): number {
  const recorded = Date.parse(conditionOf(status, 'DatabaseServing')?.lastTransitionTime ?? '')
  const asked = Date.parse(metadata.creationTimestamp ?? '')
  const began = Math.min(Math.max(since, asked), Number.isNaN(recorded) ? now : recorded)
  if (database.kind === 'Branch') return began + servingMs
  if (database.spec.suspended) return began + Math.min(servingMs, suspendingMs)
  const { name, deadlineAt } = database.status?.operation ?? {}
  const operationUntil = name === 'restore-managed' ? 0 : Date.parse(deadlineAt ?? '') || 0
  return Math.max(began + servingMs, operationUntil)
}

export const awaiting = (backup: Backup, message: string, now: number): Status =>
  waiting(backup, 'AwaitingDatabase', message, now, { DatabaseServing: no('NotServing', message) })

/** `since`: when it was begun. One that is asked for again is not told before it got an answer, so that a Task says it once. */
export function checkpointing(backup: Backup, since: number, now: number): Status {
  const lapse = conditionOf(backup.status, 'DatabaseServing')
  if (lapse === undefined) return running(backup, 'Checkpointing', message, now)
  if (now < since + answeredMs) return awaiting(backup, lapse.message, now)
  return running(backup, 'Checkpointing', message, now, { DatabaseServing: no('NotServing', lapse.message) })
}

const message = 'writing what Postgres holds to its files'
