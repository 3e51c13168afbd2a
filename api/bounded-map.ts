/** A map that never holds more than so many entries: the one set longest ago makes room. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #capacity: number

  constructor(capacity: number) {
    super()
    this.#capacity = capacity
  }

  override set(key: K, value: V): this {
    this.delete(key)
    const oldest = this.size >= this.#capacity ? this.keys().next() : undefined
    if (oldest?.done === false) this.delete(oldest.value)
    return this.#capacity > 0 ? super.set(key, value) : this
  }
}
