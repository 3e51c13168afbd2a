/**
 * Detects when the machine's clock is set, by hand, by NTP or after a suspend, so that the controllers restart. A
 * controller keeps times in memory (the last probe, the next retry). A time in the future would stop its checks for as
 * long as the clock was set back.
 */
import { type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'

/** NTP slews smaller differences. */
const jumpMs = 30_000
const checkEveryMs = 2_000

/**
 * Resolves to how far the clock was set, in ms, negative if set back; undefined once the signal aborts.
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
