/**
 * Decides whether the machine's clock can be trusted for irreversible operations: deletion by age. Pure. The clock is
 * not trusted while it differs from the API server's clock, and for some time after it was set. With a clock that is a
 * hundred days ahead, every backup would look old. Elapsed time is the time since boot, which cannot be set, and which
 * continues while a laptop sleeps.
 */

/** Times in ms. `elapsed`: since this boot of the machine. `server`: the API server's clock; undefined if unknown. */
export type ClockReading = { wall: number; elapsed: number; boot: string; server: number | undefined }

/**
 * The stored part of the last reading. `offset`: how far the clock was set since it was last trusted. `waitMs`: how
 * long it is still not trusted.
 */
export type ClockRecord = { wall: number; elapsed: number; boot: string; offset: number; waitMs: number }

type Assessment = { record: ClockRecord; distrust: string | undefined }

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** NTP often corrects smaller differences. */
const toleranceMs = 5 * minuteMs
/**
 * How long a clock that was set is not trusted, unless it is set back earlier. In that time an administrator can notice
 * a wrong clock.
 */
const longestWaitMs = 24 * hourMs
/**
 * After a boot it is unknown how long the machine was off. If it seems longer than this, the clock may be wrong until
 * NTP corrects it.
 */
const offMs = 24 * hourMs
const bootWaitMs = hourMs

/** `passed`: the time between both readings. Undefined if the machine booted between them. */
function between(
  before: ClockRecord,
  { wall, elapsed, boot }: ClockReading,
): { moved: number; passed: number | undefined } {
  const difference = wall - before.wall
  if (boot !== before.boot || elapsed < before.elapsed) return { moved: difference, passed: undefined }
  const passed = elapsed - before.elapsed
  return { moved: difference - passed, passed }
}

const waitFor = (moved: number): number => Math.min(Math.abs(moved), longestWaitMs)

/** How wrong the clock is, and how long it is not trusted. */
function carryOver(before: ClockRecord, reading: ClockReading): Pick<ClockRecord, 'offset' | 'waitMs'> {
  const { moved, passed } = between(before, reading)
  const trusted = { offset: 0, waitMs: 0 }
  if (passed === undefined) {
    if (moved <= -toleranceMs) return { offset: moved, waitMs: Math.max(before.waitMs, waitFor(moved)) }
    if (moved >= offMs) return { offset: moved, waitMs: Math.max(before.waitMs, bootWaitMs) }
    return { offset: before.offset, waitMs: before.waitMs }
  }
  const isSet = Math.abs(moved) >= toleranceMs
  if (before.waitMs === 0) return isSet ? { offset: moved, waitMs: waitFor(moved) } : trusted
  const offset = before.offset + moved
  if (Math.abs(offset) < toleranceMs) return trusted
  const remaining = Math.max(0, before.waitMs - passed)
  const waitMs = isSet ? Math.max(remaining, waitFor(moved)) : remaining
  return waitMs === 0 ? trusted : { offset, waitMs }
}

/** `before`: undefined for the first reading. */
export function assess(before: ClockRecord | undefined, reading: ClockReading): Assessment {
  const { wall, elapsed, boot, server } = reading
  const { offset, waitMs } = before === undefined ? { offset: 0, waitMs: 0 } : carryOver(before, reading)
  const record = { wall, elapsed, boot, offset, waitMs }
  if (server !== undefined && Math.abs(wall - server) >= toleranceMs)
    return { record, distrust: `the clock is ${difference(wall - server)} the API server's` }
  if (waitMs === 0) return { record, distrust: undefined }
  const since = before?.boot === boot ? 'the clock was set' : 'the machine was off, or its clock was set: the clock is'
  const remaining = Math.ceil(waitMs / minuteMs)
  return {
    record,
    distrust: `${since} ${difference(offset)} the expected time; it is trusted in ${remaining} minutes, or when it is set back`,
  }
}

const difference = (ms: number): string => {
  const minutes = Math.round(Math.abs(ms) / minuteMs)
  const size = minutes < 120 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
  return `${size} ${ms > 0 ? 'ahead of' : 'behind'}`
}
