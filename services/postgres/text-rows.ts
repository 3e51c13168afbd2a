/**
 * The rows of one statement as Postgres sent them. They are decoded only when they are read: with a buffer and a string
 * for each cell, these would be most of the garbage to collect.
 */
import { dataRowText } from '../../wire/messages.ts'

type TextRow = readonly (string | null)[]

const [tab, newLine, backslash] = [0x09, 0x0a, 0x5c]
/** The length of `\N`. */
const letterOfNull = 0x4e

/** Lines are assembled here, and copied to a string before other code runs. */
const scratch = Buffer.allocUnsafe(65_536)

/** Whether a byte needs no escape in COPY's text format. */
const isPlain = (byte: number): boolean => (byte >= 0x20 ? byte !== backslash : byte < 0x08 || byte > 0x0d)

export class TextRows {
  readonly #buffers: Buffer[] = []
  readonly #starts: number[] = []
  readonly #ends: number[] = []

  get length(): number {
    return this.#buffers.length
  }

  /** The bytes of all rows, as Postgres sent them. */
  get bytes(): number {
    return this.#ends.reduce((sum, end, row) => sum + end - (this.#starts[row] ?? end), 0)
  }

  add(buffer: Buffer, start: number, end: number): void {
    this.#buffers.push(buffer)
    this.#starts.push(start)
    this.#ends.push(end)
  }

  decoded(from = 0, to = this.length): TextRow[] {
    return this.#buffers
      .slice(from, to)
      .map((buffer, index) => dataRowText(buffer, this.#starts[from + index] ?? 0, this.#ends[from + index] ?? 0))
  }

  /**
   * Returns a line for each row: cells separated by tabs, NULL as `\N`. Undefined if the lines exceed `maximumBytes`,
   * if a value has more than `widest` bytes, or if a value has a character that COPY's text format escapes.
   */
  plainLines(from: number, to: number, widest: number, maximumBytes: number): string | undefined {
    const limit = Math.min(maximumBytes, scratch.length)
    let length = 0
    for (let row = from; row < Math.min(to, this.length); row++) {
      length = this.#line(row, length, widest, limit)
      if (length < 0) return undefined
      scratch[length++] = newLine
    }
    return scratch.toString('utf8', 0, Math.max(0, length - 1))
  }

  /** The end of the line that starts at `length`. -1 if the line needs escapes. */
  #line(row: number, from: number, widest: number, limit: number): number {
    const buffer = this.#buffers[row] ?? scratch
    let at = this.#starts[row] ?? 0
    // Each cell has a length of four bytes. Its line needs one byte for the separator, or two more for NULL.
    if (from + (this.#ends[row] ?? 0) - at >= limit) return -1
    let length = from
    const cells = buffer.readInt16BE(at)
    at += 2
    for (let cell = 0; cell < cells; cell++) {
      if (cell > 0) scratch[length++] = tab
      const bytes = buffer.readInt32BE(at)
      at += 4
      if (bytes === -1) {
        scratch[length++] = backslash
        scratch[length++] = letterOfNull
        continue
      }
      if (bytes > widest) return -1
      for (const end = at + bytes; at < end; at++) {
        const byte = buffer[at] ?? 0
        if (!isPlain(byte)) return -1
        scratch[length++] = byte
      }
    }
    return length
  }
}
