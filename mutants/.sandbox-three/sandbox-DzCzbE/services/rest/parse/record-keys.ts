/**
 * The keys of records of JSON, as they are written in a body, held against those of the first record. It promises that what it keeps is the first record's keys alone, and
 * that a key which stands where it stood in the first record costs a comparison of its bytes.
 */
// @ts-nocheck


/** One key more than a relation can have columns (Postgres manual, appendix K), so that with so many one of them is unknown. */
export const maximumKeys = 1_601
/** Of a key, so many bytes as they are written are kept: names of Postgres are far shorter. */
export const maximumKeyBytes = 1_024

/** A key as JSON.parse reads it; one that was cut off shows it. */
function keyText(written: Buffer, isEscaped: boolean, isCut: boolean): string {
  const text = written.toString('utf8')
  if (isCut) return `${text}…`
  // The scanner has seen that it is a string of JSON.
  return isEscaped ? String(JSON.parse(`"${text}"`)) : text
}

/** The keys of records, held against those of the first. */
export class RecordKeys {
  readonly #slots = new Map<string, number>()
  /** As the first record writes them, in its order. */
  readonly #written: Buffer[] = []
  /** The last record that had the key. */
  readonly #seenIn: number[] = []
  #record = 0
  #place = 0
  #distinct = 0
  /** Whether the first record has more keys than are kept. */
  #isCutOff = false
  isUniform = true

  begin(): void {
    this.#record++
    this.#place = 0
    this.#distinct = 0
  }

  /** Most records have their keys in one order: whether it is the first record's at this place. */
  takesSame(chunk: Buffer, from: number, end: number): boolean {
    if (this.#record === 1) return false
    const expected = this.#written[this.#place]
    if (expected === undefined || expected.length !== end - from) return false
    for (let at = from; at < end; at++) if (chunk[at] !== expected[at - from]) return false
    this.#see(this.#place++)
    return true
  }

  /** `written` is looked at only now. */
  key(written: Buffer, isEscaped: boolean, isCut: boolean): void {
    const slot = this.#slotOf(keyText(written, isEscaped, isCut), written)
    this.#place++
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
    // Keys that are numbers come first in an object.
    return Object.keys(Object.fromEntries(this.#slots))
  }

  #slotOf(text: string, written: Buffer): number | undefined {
    const known = this.#slots.get(text)
    if (known !== undefined) return known
    if (this.#record > 1) return this.#isCutOff ? 0 : undefined
    if (this.#slots.size === maximumKeys) {
      this.#isCutOff = true
      return 0
    }
    const slot = this.#slots.size
    this.#slots.set(text, slot)
    this.#seenIn.push(0)
    this.#written.push(Buffer.from(written))
    return slot
  }
}
