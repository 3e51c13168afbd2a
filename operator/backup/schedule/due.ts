/** When scheduled backups are due. Pure; croner computes the cron expressions. */
import { createHash } from 'node:crypto'
import { Cron } from 'croner'
import type { ManagedDatabase, ManagedDatabaseSpec } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'

type Schedule =
  | { state: 'off' }
  /** The cron expression is invalid. */
  | { state: 'invalid'; message: string }
  /** `last`: the latest due time until now, inclusive. `next`: the next due time. In ms since the epoch. */
  | { state: 'on'; last: number | undefined; next: number | undefined }

const dayMs = 24 * 3600_000
/** Nightly backups start at 02:00 UTC; in ms after midnight. */
const nightlyAtMs = 2 * 3600_000

/** The offset of a database within a span of time, in ms: whole seconds, and always the same for the same id. */
export function offsetIn(spanMs: number, id: string): number {
  const fraction = createHash('sha256').update(`espalier/schedule/${id}`).digest().readUInt32BE() / 2 ** 32
  return Math.floor((fraction * spanMs) / 1000) * 1000
}

/**
 * `spreadMs`: the time span over which the nightly backups of all databases are spread. It does not apply to a cron
 * expression.
 */
export function scheduleOf(
  { schedule }: Pick<ManagedDatabaseSpec['backup'], 'schedule'>,
  id: string,
  spreadMs: number,
  now: number,
): Schedule {
  if (schedule === 'off') return { state: 'off' }
  if (schedule === undefined) {
    const first = nightlyAtMs + offsetIn(spreadMs, id)
    const last = first + Math.floor((now - first) / dayMs) * dayMs
    return { state: 'on', last, next: last + dayMs }
  }
  try {
    const cron = new Cron(schedule, { timezone: 'UTC', mode: '5-part' })
    const next = cron.nextRun(new Date(now))?.getTime()
    return { state: 'on', last: cron.previousRuns(1, new Date(now + 1))[0]?.getTime(), next }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { state: 'invalid', message: message.replace(/^Cron(Pattern|Date): /, '') }
  }
}

/** Whether a database is Ready, and its suspension is not requested. */
export const isServing = ({ spec, status }: Pick<ManagedDatabase, 'spec' | 'status'>): boolean =>
  !spec.suspended && conditionOf(status, 'Ready')?.status === 'True'

/** The backups of a database; times in ms since the epoch. */
type Taken = {
  createdAt: number
  /** The latest due time that already has its backups. */
  doneUpTo: number | undefined
  /** When the scheduled backups were requested. */
  requestedAt: readonly number[]
  /** Whether one of them is being taken. */
  isUnderWay: boolean
}

/** A backup that is not taken within this time is missed. Missed backups are spread: many databases may have one. */
const lateMs = 600_000

/**
 * Returns when to take the next backup. `dueAt` becomes part of its name. Of several missed backups only one is taken,
 * at the database's offset after the operator's start, to spread the load. Due times before the database's creation are
 * ignored.
 */
export function nextBackup(
  { last }: Extract<Schedule, { state: 'on' }>,
  taken: Taken,
  { id, spreadMs, operatorStartedAt, now }: { id: string; spreadMs: number; operatorStartedAt: number; now: number },
): { dueAt: number; takeAt: number } | undefined {
  const { createdAt, doneUpTo = 0, requestedAt, isUnderWay } = taken
  if (last === undefined || isUnderWay || last <= createdAt || last <= doneUpTo) return undefined
  if (requestedAt.some(at => at >= last)) return undefined
  const isMissed = now - last > lateMs
  return { dueAt: last, takeAt: isMissed ? operatorStartedAt + offsetIn(spreadMs, id) : last }
}
