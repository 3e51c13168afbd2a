/**
 * A bounded cache with SIEVE eviction (Zhang and others, "SIEVE is Simpler than LRU", NSDI 2024), for caches that every
 * request reads. Entries are in insertion order, and a read sets an entry's visited bit. To evict, a hand moves from
 * the oldest to the newest entry. It clears visited bits, and removes the first entry that has none. The cache has at
 * most `capacity` entries, and a read costs no more than in a Map. Every other bounded cache is an `LRUCache` of the
 * package `lru-cache`.
 */

type Entry<Value> = {
  readonly key: string
  value: Value
  read: boolean
  newer: Entry<Value> | undefined
  older: Entry<Value> | undefined
}

export class SieveCache<Value> {
  readonly capacity: number
  readonly #entries = new Map<string, Entry<Value>>()
  #newest: Entry<Value> | undefined
  #oldest: Entry<Value> | undefined
  #hand: Entry<Value> | undefined

  /** A capacity of 0 caches nothing. */
  constructor(capacity: number) {
    this.capacity = capacity
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    entry.read = true
    return entry.value
  }

  /**
   * Setting an existing key replaces its value and counts as a read. Returns whether the cache evicted another entry.
   */
  set(key: string, value: Value): boolean {
    if (this.capacity < 1) return false
    const known = this.#entries.get(key)
    if (known !== undefined) {
      known.value = value
      known.read = true
      return false
    }
    const isFull = this.#entries.size >= this.capacity
    if (isFull) this.#evict()
    this.#append(key, value)
    return isFull
  }

  #append(key: string, value: Value): void {
    const entry: Entry<Value> = { key, value, read: false, newer: undefined, older: this.#newest }
    if (this.#newest !== undefined) this.#newest.newer = entry
    this.#newest = entry
    this.#oldest ??= entry
    this.#entries.set(key, entry)
  }

  #evict(): void {
    let entry = this.#hand ?? this.#oldest
    while (entry?.read) {
      entry.read = false
      entry = entry.newer ?? this.#oldest
    }
    if (entry === undefined) return
    this.#hand = entry.newer
    this.#remove(entry)
  }

  #remove(entry: Entry<Value>): void {
    if (entry.newer === undefined) this.#newest = entry.older
    else entry.newer.older = entry.older
    if (entry.older === undefined) this.#oldest = entry.newer
    else entry.older.newer = entry.newer
    this.#entries.delete(entry.key)
  }
}
