/**
 * Detects that the machine's clock was set, by hand, by NTP or after a suspend. The controllers then restart, because
 * they have times in memory (the last probe, the next retry). If the clock was set back, a time in the future would
 * stop their checks for that long.
 */
import { type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'

/** NTP slews smaller differences. */
const jumpMs = 30_000
const checkEveryMs = 2_000

/**
 * Resolves to how far the clock was set, in ms. Negative if it was set back; undefined after the signal aborts.
 * @param now the machine's clock, which can be set; `clock` is monotonic
 */
export async function clockJump(
  now: () => number,
  signal: AbortSignal,
  clock: Clock = systemClock,
): Promise<number | undefined> {
  const offset = now() - clock.now()
  while (!signal.aborted) {
    await sleep(clock, checkEveryMs, signal)
    const moved = now() - clock.now() - offset
    if (!signal.aborted && Math.abs(moved) >= jumpMs) return moved
  }
  return undefined
}
