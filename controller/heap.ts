/** A binary heap. Each entry stores its position, so any entry can be removed in logarithmic time. */

type HeapEntry = { position: number }

export class Heap<T extends HeapEntry> {
  readonly #entries: T[] = []
  readonly #before: (a: T, b: T) => boolean

  constructor(before: (a: T, b: T) => boolean) {
    this.#before = before
  }

  get size(): number {
    return this.#entries.length
  }

  peek(): T | undefined {
    return this.#entries[0]
  }

  push(entry: T): void {
    this.#entries.push(entry)
    entry.position = this.#entries.length - 1
    this.#rise(entry)
  }

  pop(): T | undefined {
    const first = this.#entries[0]
    if (first) this.remove(first)
    return first
  }

  /** Removes an entry that is in this heap. */
  remove(entry: T): void {
    const last = this.#entries.pop()
    if (last && last !== entry) {
      this.#put(last, entry.position)
      this.#rise(last)
      this.#sink(last)
    }
    entry.position = -1
  }

  clear(): void {
    for (const entry of this.#entries.splice(0)) entry.position = -1
  }

  #put(entry: T, position: number): void {
    this.#entries[position] = entry
    entry.position = position
  }

  #rise(entry: T): void {
    while (entry.position > 0) {
      const parent = this.#entries[(entry.position - 1) >> 1]
      if (!parent || !this.#before(entry, parent)) return
      this.#swap(entry, parent)
    }
  }

  #sink(entry: T): void {
    for (;;) {
      const left = this.#entries[entry.position * 2 + 1]
      const right = this.#entries[entry.position * 2 + 2]
      const child = left && right && this.#before(right, left) ? right : left
      if (!child || !this.#before(child, entry)) return
      this.#swap(child, entry)
    }
  }

  #swap(a: T, b: T): void {
    const position = a.position
    this.#put(a, b.position)
    this.#put(b, position)
  }
}
