/** When scheduled backups are due. Pure; the calendar of cron expressions is croner's. */
import { createHash } from 'node:crypto'
import { Cron } from 'croner'
import type { ManagedDatabase, ManagedDatabaseSpec } from '../../../crds/index.ts'
import { conditionOf } from '../../objects/conditions.ts'

type Schedule =
  | { state: 'off' }
  /** It cannot be read. */
  | { state: 'invalid'; message: string }
  /** When one was due last, this moment included, and when the next one is; ms since the epoch. */
  | { state: 'on'; last: number | undefined; next: number | undefined }

const dayMs = 24 * 3600_000
/** Of a night in UTC, since the epoch began at midnight. */
const nightlyAtMs = 2 * 3600_000

/** Where in a span of time a database has its place: the same in every process, whole seconds. */
export function placeIn(spanMs: number, id: string): number {
  const place = createHash('sha256').update(`espalier/schedule/${id}`).digest().readUInt32BE() / 2 ** 32
  return Math.floor((place * spanMs) / 1000) * 1000
}

/** `spreadMs`: over how long the nightly ones of all databases are spread. One that asks for a time of its own gets that. */
export function scheduleOf(
  { schedule }: Pick<ManagedDatabaseSpec['backup'], 'schedule'>,
  id: string,
  spreadMs: number,
  now: number,
): Schedule {
  if (schedule === 'off') return { state: 'off' }
  if (schedule === undefined) {
    const first = nightlyAtMs + placeIn(spreadMs, id)
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

/** Whether a database serves, and is to go on serving. */
export const isServing = ({ spec, status }: Pick<ManagedDatabase, 'spec' | 'status'>): boolean =>
  !spec.suspended && conditionOf(status, 'Ready')?.status === 'True'

/** What is known of the backups of a database; times in ms since the epoch. */
type Taken = {
  createdAt: number
  /** The latest due time that needs no backup any more. */
  doneUpTo: number | undefined
  /** When scheduled ones were asked for. */
  askedAt: readonly number[]
  /** One of them is being taken. */
  isUnderWay: boolean
}

/** A backup is late where it is taken so long after it was due: then it was missed, and others may have been as well. */
const lateMs = 600_000

/**
 * When to take one: `dueAt` names it. Of several that were missed one is taken, at the database's place in the time after
 * the operator started, so that those of all databases do not come at once. Nothing is due from before there was the database.
 */
export function nextBackup(
  { last }: Extract<Schedule, { state: 'on' }>,
  taken: Taken,
  { id, spreadMs, operatorStartedAt, now }: { id: string; spreadMs: number; operatorStartedAt: number; now: number },
): { dueAt: number; takeAt: number } | undefined {
  const { createdAt, doneUpTo = 0, askedAt, isUnderWay } = taken
  if (last === undefined || isUnderWay || last <= createdAt || last <= doneUpTo) return undefined
  if (askedAt.some(at => at >= last)) return undefined
  const isMissed = now - last > lateMs
  return { dueAt: last, takeAt: isMissed ? operatorStartedAt + placeIn(spreadMs, id) : last }
}
