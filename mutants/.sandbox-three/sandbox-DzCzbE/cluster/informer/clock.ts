/**
 * Time as the long-running parts see it: a reading and a timer, so that a test can run both. Readings are monotonic:
 * setting the machine's clock neither fires nor holds back a timer.
 */
// @ts-nocheck


/** Calls back once after `ms` milliseconds; the returned function cancels it. */
type After = (ms: number, callback: () => void) => () => void

export type Clock = {
  /** Milliseconds since the Unix epoch, never running backwards. */
  now: () => number
  after: After
}

/** The longest delay that Node's timers keep; anything above it would fire at once. */
const longestDelayMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(Math.max(ms, 0), longestDelayMs))
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or as soon as the signal aborts; it never rejects and leaves no listener behind. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve()
  return new Promise(resolve => {
    const finish = () => {
      cancel()
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const cancel = clock.after(ms, finish)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/**
 * The delay before attempt number `failures + 1`: doubles from `minimumMs` to `maximumMs`, with the upper half of it
 * random, so that clients which failed together do not come back together.
 */
export function backoffMs(
  failures: number,
  limits: { minimumMs: number; maximumMs: number },
  random: () => number = Math.random,
): number {
  const whole = Math.min(limits.maximumMs, limits.minimumMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))
  return whole * (0.5 + random() / 2)
}
