/**
 * Compares the keys of JSON records, as the body spells them, with the first record's keys. Retains only the first
 * record's keys. A key at the same position as in the first record needs only one comparison of bytes.
 */

/** One key more than a relation can have columns (Postgres manual, appendix K), so at least one key is unknown. */
export const maximumKeys = 1_601
/** How many bytes of a key are retained, as written. Postgres names are much shorter. */
export const maximumKeyBytes = 1_024

/** A key as JSON.parse reads it. A truncated key ends with an ellipsis. */
function keyText(written: Buffer, isEscaped: boolean, isTruncated: boolean): string {
  const text = written.toString('utf8')
  if (isTruncated) return `${text}…`
  // The scanner has checked that it is a JSON string.
  return isEscaped ? String(JSON.parse(`"${text}"`)) : text
}

/** The records' keys, compared with the first record's keys. */
export class RecordKeys {
  readonly #slots = new Map<string, number>()
  /** The keys as the first record spells them, in its order. */
  readonly #written: Buffer[] = []
  /** The last record that had the key. */
  readonly #seenIn: number[] = []
  #record = 0
  #index = 0
  #distinct = 0
  /** Whether the first record has more keys than are retained. */
  #isIncomplete = false
  isUniform = true

  begin(): void {
    this.#record++
    this.#index = 0
    this.#distinct = 0
  }

  /** Most records have the same key order, so this checks for the first record's key at this position. */
  takesSame(chunk: Buffer, from: number, end: number): boolean {
    if (this.#record === 1) return false
    const expected = this.#written[this.#index]
    if (expected === undefined || expected.length !== end - from) return false
    for (let at = from; at < end; at++) if (chunk[at] !== expected[at - from]) return false
    this.#see(this.#index++)
    return true
  }

  /** Only this method decodes `written`. */
  key(written: Buffer, isEscaped: boolean, isTruncated: boolean): void {
    const slot = this.#slotOf(keyText(written, isEscaped, isTruncated), written)
    this.#index++
    if (slot === undefined) this.isUniform = false
    else this.#see(slot)
  }

  #see(slot: number): void {
    if (this.#seenIn[slot] === this.#record) return
    this.#seenIn[slot] = this.#record
    this.#distinct++
  }

  end(): void {
    if (this.#distinct !== this.#slots.size) this.isUniform = false
  }

  names(): string[] {
    // In an object, numeric keys come first.
    return Object.keys(Object.fromEntries(this.#slots))
  }

  #slotOf(text: string, written: Buffer): number | undefined {
    const known = this.#slots.get(text)
    if (known !== undefined) return known
    if (this.#record > 1) return this.#isIncomplete ? 0 : undefined
    if (this.#slots.size === maximumKeys) {
      this.#isIncomplete = true
      return 0
    }
    const slot = this.#slots.size
    this.#slots.set(text, slot)
    this.#seenIn.push(0)
    this.#written.push(Buffer.from(written))
    return slot
  }
}
