/** Seeded random choices. The same seed gives the same requests on every machine. */

export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, but not including, `end`. */
  below(end: number): number {
    // Mulberry32: 32 bits of state are enough for tests.
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * end)
  }

  /** Returns true in this many of a hundred cases. */
  percent(share: number): boolean {
    return this.below(100) < share
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.below(list.length)]
    if (picked === undefined) throw new Error('nothing to pick from')
    return picked
  }

  /** Returns one of the words of a text. */
  word(text: string): string {
    return this.pick(text.split(' '))
  }

  /** Creates from `least` to `most` items, one by one. */
  list<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.below(most - least + 1) }, make)
  }
}
