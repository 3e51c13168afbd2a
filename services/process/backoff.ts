/**
 * Exponential backoff for retries, at most half a minute. Retries do not overload an unavailable server, and detect
 * soon that it is available again.
 */

const shortestMs = 1_000
const longestMs = 32_000

/** The next delay, after a failed try that followed a delay of this many milliseconds. 0: there was no delay. */
export const nextBackoff = (lastMs: number): number => Math.min(Math.max(shortestMs, 2 * lastMs), longestMs)

/**
 * Postgres may start at the same time as the service. So the service retries this often, for this long after its start.
 */
const starting = [
  { beforeMs: 30_000, delayMs: 250 },
  { beforeMs: 120_000, delayMs: 1_000 },
] as const

/** The next delay of a service that has never reached Postgres, `sinceStartMs` after its start. */
export const startupBackoff = (sinceStartMs: number, lastMs: number): number =>
  starting.find(({ beforeMs }) => sinceStartMs < beforeMs)?.delayMs ?? nextBackoff(lastMs)
