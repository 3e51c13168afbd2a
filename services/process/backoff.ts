/**
 * Exponential backoff for retries, at most half a minute, so that an unavailable server is not overloaded and its
 * return is detected soon.
 */

const shortestMs = 1_000
const longestMs = 32_000

/** The next wait, after an unsuccessful wait of this many milliseconds; 0: there was none. */
export const nextBackoff = (lastMs: number): number => Math.min(Math.max(shortestMs, 2 * lastMs), longestMs)

/** Postgres may be starting beside the service: it is retried this often, for this long after the start. */
const starting = [
  { beforeMs: 30_000, delayMs: 250 },
  { beforeMs: 120_000, delayMs: 1_000 },
] as const

/** The next wait of a service that has never reached Postgres, `sinceStartMs` after its start. */
export const startupBackoff = (sinceStartMs: number, lastMs: number): number =>
  starting.find(({ beforeMs }) => sinceStartMs < beforeMs)?.delayMs ?? nextBackoff(lastMs)
