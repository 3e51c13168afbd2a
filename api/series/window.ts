/** The time range of a request for metrics, and the length of its steps. */
import { sampleEveryMs } from '../../instance/agent/contract.ts'
import { badRequest } from '../errors.ts'
import { defaultInterval, intervalMs } from './interval.ts'

/** The range includes `startMs` and excludes `endMs`. */
export type Window = { startMs: number; endMs: number; intervalMs: number }

/** The maximum number of points in one series. */
const mostPoints = 1000
const defaultSpanMs = 2 * 3600_000

type Query = { interval?: string | undefined; start_time?: string | undefined; end_time?: string | undefined }

/** @throws ApiError 400 for too many points */
export function windowOf({ interval = defaultInterval, start_time, end_time }: Query, now: number): Window {
  const endMs = end_time === undefined ? now : Date.parse(end_time)
  const startMs = start_time === undefined ? endMs - defaultSpanMs : Date.parse(start_time)
  if (startMs >= endMs) throw badRequest('start_time: must be before end_time; an omitted end_time is now')
  const step = intervalMs(interval)
  // A series cannot have more points than samples.
  if ((endMs - startMs) / Math.max(step, sampleEveryMs) > mostPoints)
    throw badRequest(
      `interval: more than ${mostPoints} points between start_time and end_time; use a longer interval or a shorter range`,
    )
  return { startMs, endMs, intervalMs: step }
}
