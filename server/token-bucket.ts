/** Rates: how much may be asked for, by one or by each of many, without a timer and within bounded memory. */
import { LRUCache } from 'lru-cache'

/** `perSecond` tokens on average, at most `burst` at once. */
export type Rate = { perSecond: number; burst: number }

/** It begins full. A clock that was set back gives nothing and takes nothing. */
export class TokenBucket {
  readonly #now: () => number
  readonly #rate: Rate
  /** Below zero: tokens already promised that are still to be earned. */
  #tokens: number
  #filledAt: number

  constructor(now: () => number, rate: Rate) {
    this.#now = now
    this.#rate = rate
    this.#tokens = rate.burst
    this.#filledAt = now()
  }

  /** Takes a token if there is one. */
  take(): boolean {
    this.#fill()
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }

  /** The ms after which there is a token to take. */
  waitMs(): number {
    this.#fill()
    return (Math.max(0, 1 - this.#tokens) * 1000) / this.#rate.perSecond
  }

  /** Tokens there are to take now, and the ms after which it is full again. */
  get left(): { tokens: number; fullInMs: number } {
    this.#fill()
    const missing = this.#rate.burst - this.#tokens
    return { tokens: Math.max(0, Math.floor(this.#tokens)), fullInMs: (missing * 1000) / this.#rate.perSecond }
  }

  /** Takes a token in any case, and gives the ms after which it may be used. */
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
 * A bucket for each key, so that one noisy client costs no more than its share. Of more than `keys` keys the one that was
 * asked about longest ago is forgotten, and starts full again: where keys can be made up, a bucket for all of them belongs
 * beside these.
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
