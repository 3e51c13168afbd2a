/** When a region's maintenance window is open. Pure. Croner computes the calendar. */
import { Cron } from 'croner'
import type { Region } from '../../crds/index.ts'

type Maintenance = NonNullable<Region['spec']['maintenance']>

export type Window =
  /** `id`: identifies this window. Databases that were restarted in it record it. */
  | { state: 'open'; id: string; endsAt: number }
  | { state: 'closed'; opensAt: number | undefined }
  /** The schedule or time zone is invalid. */
  | { state: 'invalid'; message: string }

const secondsOf = { m: 60, h: 3600 } as const

/** Converts a length such as `90m` or `4h` to milliseconds. The schema has checked its format. */
export function lengthOf(length: string): number {
  const [, count = '0', unit = 'm'] = /^([0-9]+)([mh])$/.exec(length) ?? []
  return Number(count) * secondsOf[unit === 'h' ? 'h' : 'm'] * 1000
}

export function windowAt({ schedule, timeZone = 'UTC', duration }: Maintenance, now: number): Window {
  let last: Date | undefined
  let next: Date | null
  try {
    const cron = new Cron(schedule, { timezone: timeZone, mode: '5-part', paused: true })
    next = cron.nextRun(new Date(now))
    // A window that opens exactly now counts as open.
    last = cron.previousRuns(1, new Date(now + 1))[0]
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { state: 'invalid', message: message.replace(/^Cron(Pattern|Date): /, '') }
  }
  if (last !== undefined && now < last.getTime() + lengthOf(duration))
    return { state: 'open', id: last.toISOString(), endsAt: last.getTime() + lengthOf(duration) }
  return { state: 'closed', opensAt: next?.getTime() }
}
