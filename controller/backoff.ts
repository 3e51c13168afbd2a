/**
 * Computes how long a failed key waits. The delay doubles with each failed retry, and a token bucket limits the retries
 * of all keys together. The defaults are those of controller-runtime. One difference: an event can start a pass before
 * the retry is due. If that pass fails too, the retry time does not change. Otherwise a burst of events that fail for
 * the same reason would postpone the retry by minutes.
 */
import { TokenBucket } from '../server/token-bucket.ts'

export type BackoffOptions = {
  /** The delay after the first failure. It doubles with each further failure. */
  baseMs?: number
  maximumMs?: number
  /** Retries per second over all keys, and the burst size. */
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
