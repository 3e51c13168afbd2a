/**
 * How long a key that failed has to wait: twice as long each time it fails, and never so short that all keys together
 * retry faster than a token bucket allows. The defaults are controller-runtime's.
 */
// @ts-nocheck

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
  readonly #failures = new Map<string, number>()
  readonly #baseMs: number
  readonly #maximumMs: number
  readonly #bucket: TokenBucket

  constructor(now: () => number, options: BackoffOptions = {}) {
    this.#baseMs = options.baseMs ?? 5
    this.#maximumMs = options.maximumMs ?? 1_000_000
    this.#bucket = new TokenBucket(now, { perSecond: options.perSecond ?? 10, burst: options.burst ?? 100 })
  }

  /** Counts a failure of the key and gives the delay in ms before it may run again. */
  delayMs(key: string): number {
    const failures = this.#failures.get(key) ?? 0
    this.#failures.set(key, failures + 1)
    const ownMs = Math.min(this.#maximumMs, this.#baseMs * 2 ** Math.min(failures, 50))
    return Math.max(ownMs, this.#bucket.reserveMs())
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0
  }

  forget(key: string): void {
    this.#failures.delete(key)
  }
}
