/**
 * Whether the machine's clock can be trusted with what cannot be undone: deletion by age. Pure. It cannot while the clock differs from
 * the API server's, and for a while after it was set: a clock that is a hundred days ahead makes every backup look old. Time that passes
 * is measured by the time since the machine booted, which nobody sets and which goes on while a laptop sleeps.
 */

/** All in ms. `elapsed`: since this boot of the machine. `server`: the API server's clock; undefined where it is not known. */
export type ClockReading = { wall: number; elapsed: number; boot: string; server: number | undefined }

/** What is kept of the last reading. `offset`: by how much the clock was set since it was trusted; `waitMs`: for how long it is not trusted yet. */
export type ClockRecord = { wall: number; elapsed: number; boot: string; offset: number; waitMs: number }

type Judgement = { record: ClockRecord; doubt: string | undefined }

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** NTP corrects smaller differences all the time. */
const toleranceMs = 5 * minuteMs
/** How long a clock that was set is not trusted, unless it is set back before. By then somebody could see that it is wrong. */
const longestWaitMs = 24 * hourMs
/** After a boot nobody knows how long the machine was off. Where it seems to be longer than this, its clock may be wrong until NTP corrects it. */
const offMs = 24 * hourMs
const bootWaitMs = hourMs

/** `passed`: how much time there was between both readings; undefined across a boot. */
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

/** How far the clock is off, and for how long it is not trusted. */
function settle(before: ClockRecord, reading: ClockReading): Pick<ClockRecord, 'offset' | 'waitMs'> {
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
  const left = Math.max(0, before.waitMs - passed)
  const waitMs = isSet ? Math.max(left, waitFor(moved)) : left
  return waitMs === 0 ? trusted : { offset, waitMs }
}

/** `before`: undefined where there was no reading yet. */
export function judge(before: ClockRecord | undefined, reading: ClockReading): Judgement {
  const { wall, elapsed, boot, server } = reading
  const { offset, waitMs } = before === undefined ? { offset: 0, waitMs: 0 } : settle(before, reading)
  const record = { wall, elapsed, boot, offset, waitMs }
  if (server !== undefined && Math.abs(wall - server) >= toleranceMs)
    return { record, doubt: `the clock is ${told(wall - server)} the API server's` }
  if (waitMs === 0) return { record, doubt: undefined }
  const since = before?.boot === boot ? 'the clock was set' : 'the machine was off, or its clock was set:'
  const left = Math.ceil(waitMs / minuteMs)
  return {
    record,
    doubt: `${since} ${told(offset)} the time before; it is trusted in ${left} minutes, or when it is set back`,
  }
}

const told = (ms: number): string => {
  const minutes = Math.round(Math.abs(ms) / minuteMs)
  const size = minutes < 120 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
  return `${size} ${ms > 0 ? 'ahead of' : 'behind'}`
}
