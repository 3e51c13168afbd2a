/**
 * How long a key that failed has to wait: twice as long each time a retry fails, and never so short that all keys together
 * retry faster than a token bucket allows. The defaults are controller-runtime's. One thing differs: a pass that an event starts
 * before the retry is due, and that fails as well, leaves the retry as it is. Otherwise a burst of events, each of which fails
 * for one and the same reason, would postpone the retry by minutes.
 */
import { TokenBucket } from '../server/token-bucket.ts'

export type BackoffOptions = {
  /** Delay after the first failure; doubles with each further one. */
  baseMs?: number
  maximumMs?: number
  /** Retries per second over all keys, and how many may come at once. */
  perSecond?: number
  burst?: number
}

export class Backoff {
  /** How often each key failed, and when its retry is due. */
  readonly #failures = new Map<string, { count: number; retryAt: number }>()
  readonly #now: () => number
  readonly #baseMs: number
  readonly #maximumMs: number
  readonly #bucket: TokenBucket

  constructor(now: () => number, options: BackoffOptions = {}) {
    this.#now = now
    this.#baseMs = options.baseMs ?? 5
    this.#maximumMs = options.maximumMs ?? 1_000_000
    this.#bucket = new TokenBucket(now, { perSecond: options.perSecond ?? 10, burst: options.burst ?? 100 })
  }

  /** Returns the delay in ms before the key may run again. Counts a failure of the key, unless its retry is not due yet. */
  delayMs(key: string): number {
    const now = this.#now()
    const { count = 0, retryAt = now } = this.#failures.get(key) ?? {}
    if (now < retryAt) return retryAt - now
    const ownMs = Math.min(this.#maximumMs, this.#baseMs * 2 ** Math.min(count, 50))
    const delayMs = Math.max(ownMs, this.#bucket.reserveMs())
    this.#failures.set(key, { count: count + 1, retryAt: now + delayMs })
    return delayMs
  }

  failures(key: string): number {
    return this.#failures.get(key)?.count ?? 0
  }

  forget(key: string): void {
    this.#failures.delete(key)
  }
}
