/** How long the parts of a request took, as Server-Timing says it (W3C Server Timing). */
// @ts-nocheck


type Part = 'jwt' | 'parse' | 'plan' | 'transaction' | 'response'

export class Timing {
  readonly #durations: [Part, number][] = []
  #last = performance.now()

  /** Ends a part; the next begins here. */
  mark(part: Part): void {
    const now = performance.now()
    this.#durations.push([part, now - this.#last])
    this.#last = now
  }

  /** Leaves out what has passed since a part ended: the time that the client took. */
  leaveOut(): void {
    this.#last = performance.now()
  }

  /** Milliseconds with three decimals. */
  toString(): string {
    return this.#durations.map(([part, duration]) => `${part};dur=${duration.toFixed(3)}`).join(', ')
  }
}
