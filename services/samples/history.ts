/** The samples of the last two hours of one process. Their memory has a fixed size. */
import { retainedServiceSamples } from '../../server/samples.ts'

export class SampleHistory {
  readonly #names: readonly string[]
  readonly #retained: number
  readonly #rows: Float64Array
  /** How many samples were added in total. */
  #added = 0
  #lastAt = Number.NEGATIVE_INFINITY

  constructor(names: readonly string[], retained = retainedServiceSamples) {
    this.#names = names
    this.#retained = retained
    this.#rows = new Float64Array(retained * this.#width)
  }

  get #width(): number {
    return this.#names.length + 1
  }

  /** If the clock is set back, samples are skipped until it catches up, because the times of samples only increase. */
  add(at: number, values: Readonly<Record<string, number>>): void {
    if (at <= this.#lastAt) return
    this.#lastAt = at
    const from = (this.#added % this.#retained) * this.#width
    this.#rows[from] = at
    for (const [index, name] of this.#names.entries()) this.#rows[from + 1 + index] = values[name] ?? 0
    this.#added += 1
  }

  /** Oldest first. Each sample's time precedes its values. */
  rows(): number[][] {
    const count = Math.min(this.#added, this.#retained)
    return Array.from({ length: count }, (_, index) => {
      const from = ((this.#added - count + index) % this.#retained) * this.#width
      return [...this.#rows.subarray(from, from + this.#width)]
    })
  }
}
