/** Rate limits for one or many keys, without timers and with limited memory. */
import { LRUCache } from 'lru-cache'

/** `perSecond` tokens on average, at most `burst` at once. */
export type Rate = { perSecond: number; burst: number }

/** A new bucket is full. If the clock is set back, this adds and removes no tokens. */
export class TokenBucket {
  readonly #now: () => number
  readonly #rate: Rate
  /** If negative, tokens are reserved in advance. */
  #tokens: number
  #filledAt: number

  constructor(now: () => number, rate: Rate) {
    this.#now = now
    this.#rate = rate
    this.#tokens = rate.burst
    this.#filledAt = now()
  }

  /** Takes a token if one is available. */
  take(): boolean {
    this.#fill()
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /** The ms until a token is available. */
  waitMs(): number {
    this.#fill()
    return (Math.max(0, 1 - this.#tokens) * 1000) / this.#rate.perSecond
  }

  /** The available tokens, and the ms until the bucket is full again. */
  get remaining(): { tokens: number; fullInMs: number } {
    this.#fill()
    const missing = this.#rate.burst - this.#tokens
    return { tokens: Math.max(0, Math.floor(this.#tokens)), fullInMs: (missing * 1000) / this.#rate.perSecond }
  }

  /** Takes a token in any case. Returns the ms until it may be used. */
  reserveMs(): number {
    this.#fill()
    this.#tokens -= 1
    return (Math.max(0, -this.#tokens) * 1000) / this.#rate.perSecond
  }

  #fill(): void {
    const now = this.#now()
    const earned = (Math.max(0, now - this.#filledAt) * this.#rate.perSecond) / 1000
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + earned)
    this.#filledAt = now
  }
}

/**
 * A bucket for each key, so that one client can use up only its own share. Above `keys` keys, the least recently used
 * bucket is deleted and later starts full again. If clients can invent keys, add one bucket for all of them.
 */
export class TokenBuckets {
  readonly #buckets: LRUCache<string, TokenBucket>
  readonly #now: () => number
  readonly #rate: Rate

  constructor(now: () => number, rate: Rate, keys: number) {
    this.#buckets = new LRUCache({ max: keys })
    this.#now = now
    this.#rate = rate
  }

  /** The bucket of this key. */
  of(key: string): TokenBucket {
    const known = this.#buckets.get(key)
    if (known !== undefined) return known
    const made = new TokenBucket(this.#now, this.#rate)
    this.#buckets.set(key, made)
    return made
  }
}
