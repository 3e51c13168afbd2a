/**
 * The clock of the long-running parts: the current time and timers. A test can replace it. The time is monotonic: a
 * change of the machine's clock neither fires nor delays a timer.
 */

/** Calls back once after `ms` milliseconds. The returned function cancels the timer. */
type After = (ms: number, callback: () => void) => () => void

export type Clock = {
  /** Milliseconds since the Unix epoch. The value never decreases. */
  now: () => number
  after: After
}

/** The longest delay of Node's timers. With a longer delay, a timer would fire at once. */
const longestDelayMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, Math.min(Math.max(ms, 0), longestDelayMs))
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or as soon as the signal aborts. It never rejects and leaves no listener. */
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
 * The delay before attempt number `failures + 1`. It doubles from `minimumMs` to `maximumMs`. Its upper half is random,
 * so that clients that failed together do not retry together.
 */
export function backoffMs(
  failures: number,
  limits: { minimumMs: number; maximumMs: number },
  random: () => number = Math.random,
): number {
  const fullMs = Math.min(limits.maximumMs, limits.minimumMs * 2 ** Math.min(Math.max(failures - 1, 0), 40))
  return fullMs * (0.5 + random() / 2)
}
