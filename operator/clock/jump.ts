/**
 * Notices when the machine's clock is set, by hand, by NTP or by a suspended laptop, so that the controllers start anew.
 * What a controller keeps in memory has times in it (the last probe, the next retry), and a time in the future would
 * keep it from looking again for as long as the clock was set back.
 */
import { type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'

/** NTP slews smaller differences away. */
const jumpMs = 30_000
const checkEveryMs = 2_000

/**
 * Resolves to how far the clock was set, in ms, negative for back; undefined once the signal aborts.
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
