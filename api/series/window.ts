/** Which time a request for metrics is about, and in which steps. */
import { sampleEveryMs } from '../../instance/agent/contract.ts'
import { badRequest } from '../errors.ts'
import { defaultInterval, intervalMs } from './interval.ts'

/** From `startMs` on, before `endMs`. */
export type Window = { startMs: number; endMs: number; intervalMs: number }

/** Most points of one series. */
const mostPoints = 1000
const defaultSpanMs = 2 * 3600_000

type Query = { interval?: string | undefined; start_time?: string | undefined; end_time?: string | undefined }

/** @throws ApiError 400 for more points than there may be */
export function windowOf({ interval = defaultInterval, start_time, end_time }: Query, now: number): Window {
  const endMs = end_time === undefined ? now : Date.parse(end_time)
  const startMs = start_time === undefined ? endMs - defaultSpanMs : Date.parse(start_time)
  if (startMs >= endMs) throw badRequest('start_time: must be before end_time, which is now where it is omitted')
  const step = intervalMs(interval)
  // There are no more points than samples.
  if ((endMs - startMs) / Math.max(step, sampleEveryMs) > mostPoints)
    throw badRequest(
      `interval: more than ${mostPoints} points of it lie between start_time and end_time; ask for a longer one, or for less time`,
    )
  return { startMs, endMs, intervalMs: step }
}
