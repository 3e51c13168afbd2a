/** A rate: `perSecond` tokens on average, at most `burst` at once. It begins full and keeps no timer. */
export class TokenBucket {
  readonly #now: () => number
  readonly #perMs: number
  readonly #burst: number
  /** Below zero: tokens already promised that are still to be earned. */
  #tokens: number
  #filledAt: number

  constructor(now: () => number, rate: { perSecond: number; burst: number }) {
    this.#now = now
    this.#perMs = rate.perSecond / 1000
    this.#burst = rate.burst
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

  /** Takes a token in any case, and gives the ms after which it may be used. */
  reserveMs(): number {
    this.#fill()
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs
  }

  #fill(): void {
    const now = this.#now()
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#filledAt) * this.#perMs)
    this.#filledAt = now
  }
}
