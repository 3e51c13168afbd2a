/** Measures the parts of a request for the Server-Timing header (W3C Server Timing). */

type Part = 'jwt' | 'parse' | 'plan' | 'transaction' | 'response'

export class Timing {
  readonly #durations: [Part, number][] = []
  #last = performance.now()

  /** Ends a part. The next part starts here. */
  record(part: Part): void {
    const now = performance.now()
    this.#durations.push([part, now - this.#last])
    this.#last = now
  }

  /** Excludes the time since the last part ended, because it is the client's time. */
  exclude(): void {
    this.#last = performance.now()
  }

  /** Milliseconds with three decimals. */
  toString(): string {
    return this.#durations.map(([part, duration]) => `${part};dur=${duration.toFixed(3)}`).join(', ')
  }
}
