/** A clock for tests. Time advances only in `advance`, which fires the due timers in order. */
import type { Clock } from '../informer/clock.ts'

/** Runs everything that waits neither for a timer nor for I/O. */
export const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export class SimulatedClock implements Clock {
  #now: number
  #order = 0
  readonly #timers = new Set<{ at: number; order: number; callback: () => void }>()

  constructor(now = Date.UTC(2030, 0, 1)) {
    this.#now = now
  }

  /** Timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.size
  }

  readonly now = (): number => this.#now

  readonly after = (ms: number, callback: () => void): (() => void) => {
    const timer = { at: this.#now + Math.max(0, ms), order: this.#order++, callback }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  async advance(ms: number): Promise<void> {
    const target = this.#now + ms
    await settle()
    for (let next = this.#first(); next && next.at <= target; next = this.#first()) {
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.callback()
      await settle()
    }
    this.#now = target
  }

  /** Lets time pass without firing a timer, as for a frozen process. */
  freeze(ms: number): void {
    this.#now += ms
  }

  #first(): { at: number; order: number; callback: () => void } | undefined {
    let first: { at: number; order: number; callback: () => void } | undefined
    for (const timer of this.#timers)
      if (!first || timer.at < first.at || (timer.at === first.at && timer.order < first.order)) first = timer
    return first
  }
}
