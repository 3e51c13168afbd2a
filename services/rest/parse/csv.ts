/**
 * Converts CSV (RFC 4180) to JSON for Postgres as it arrives, byte by byte. The output is a list of records whose
 * values are strings, or null for NULL. The keys are column numbers instead of names: with names of sixty letters,
 * Postgres would parse mostly names. Time is linear in the bytes, and the output is at most nine times as long.
 */

import type { Bytes } from '../../../wire/messages.ts'
import { Pieces } from '../../http/pieces.ts'
import { csvQuoteFollowed, csvQuoteOpen, csvTooWide, emptyCsv, unevenCsv } from '../errors/catalogue.ts'
import { maximumKeyBytes } from './record-keys.ts'

/** The maximum columns of a relation (Postgres manual, appendix K). */
export const maximumFields = 1_600

const quote = 0x22
const comma = 0x2c
const lineFeed = 0x0a
const carriageReturn = 0x0d
const backslash = 0x5c
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** The parser's states: what may follow. */
const atRecord = 0
const atField = 1
const inField = 2
const inQuoted = 3
const afterQuote = 4
/** The state after a carriage return: a line feed must follow. */
const afterReturn = 5

const hexadecimal = '0123456789abcdef'
/** Escapes of bytes that a JSON string cannot contain. */
const escaped: readonly (Buffer | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  if (byte === quote || byte === backslash) return Buffer.from([backslash, byte])
  return byte < 0x20 ? Buffer.from(`\\u00${hexadecimal[byte >> 4]}${hexadecimal[byte & 15]}`) : undefined
})
const nullText = Buffer.from('NULL')
const nullJson = Buffer.from('null')

/**
 * How many bytes are converted at a time. All readers share the buffer, since no reader awaits while it uses the
 * buffer.
 */
const sliceBytes = 8_192
/** One byte can end a value and a record and start the next one: at most twelve bytes of JSON. */
const scratch = Buffer.allocUnsafe(16 * sliceBytes)

const letters = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
/** The JSON key of a column by its position: one or two letters. */
const keyOf = (index: number): string =>
  (index < letters.length ? '' : keyOf(Math.floor(index / letters.length))) + letters[index % letters.length]

type CsvRecords = {
  /** The JSON: a list of objects. */
  readonly json: Bytes
  /** The JSON keys by column name. For duplicate names, the last column's key. */
  readonly keys: ReadonlyMap<string, string>
  /** Whether there are no records. */
  readonly isEmpty: boolean
}

/** The names in the first line. */
class Header {
  readonly names: string[] = []
  readonly #name = Buffer.allocUnsafe(maximumKeyBytes)
  #length = 0
  #isTruncated = false

  byte(byte: number): void {
    if (this.#length < maximumKeyBytes) this.#name[this.#length++] = byte
    else this.#isTruncated = true
  }

  endName(): void {
    if (this.names.length === maximumFields) throw csvTooWide(maximumFields)
    this.names.push(`${this.#name.toString('utf8', 0, this.#length)}${this.#isTruncated ? '…' : ''}`)
    this.#length = 0
    this.#isTruncated = false
  }
}

export class CsvReader {
  readonly #json = new Pieces()
  #state = atRecord
  /** The parser of the header. Undefined after the first line. */
  #header: Header | undefined = new Header()
  readonly #keys = new Map<string, string>()
  /** The JSON before each value, by position. Undefined for a column with a duplicate name, which is not written. */
  #prefixes: readonly (Buffer | undefined)[] = []
  #place = 0
  #records = 0
  #isUneven = false
  /** How many bytes of the value match the start of NULL. -1 if the value differs. */
  #nullBytes = 0
  /** How many bytes of the buffer are used. */
  #filled = 0

  /** How many bytes are retained. */
  get bufferedBytes(): number {
    return this.#json.length
  }

  /** @throws RestError if the bytes cannot be CSV */
  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; from += sliceBytes) {
      this.#slice(chunk.subarray(from, from + sliceBytes))
      this.#keep()
    }
  }

  /** @throws RestError if the bytes are not CSV */
  end(): CsvRecords {
    if (this.#state === inQuoted) throw csvQuoteOpen()
    if (this.#state !== atRecord && this.#state !== afterReturn) {
      if (this.#state === atField) this.#beginValue()
      this.#endRecord()
    }
    if (this.#header !== undefined) throw emptyCsv()
    if (this.#isUneven) throw unevenCsv()
    if (this.#records === 0) scratch[this.#filled++] = openBracket
    scratch[this.#filled++] = closeBracket
    this.#keep()
    return { json: this.#json.bytes(), keys: this.#keys, isEmpty: this.#records === 0 }
  }

  #keep(): void {
    if (!this.#isUneven) this.#json.addCopy(scratch.subarray(0, this.#filled))
    this.#filled = 0
  }

  #slice(slice: Buffer): void {
    for (let at = 0; at < slice.length; at++) {
      const byte = slice[at] as number // `at` is within the slice
      switch (this.#state) {
        case afterReturn:
          this.#state = atRecord
          if (byte !== lineFeed) at--
          break
        case atRecord:
          if (this.#header === undefined) {
            // An empty line is not a record.
            if (byte === lineFeed) break
            if (byte === carriageReturn) {
              this.#state = afterReturn
              break
            }
            this.#beginRecord()
          }
          this.#state = atField
          at--
          break
        case atField:
          this.#beginValue()
          this.#state = byte === quote ? inQuoted : inField
          if (byte !== quote) at--
          break
        case inField:
          if (byte === comma || byte === lineFeed || byte === carriageReturn) this.#separator(byte)
          else this.#valueByte(byte)
          break
        case inQuoted:
          if (byte === quote) this.#state = afterQuote
          else this.#valueByte(byte)
          break
        case afterQuote:
          if (byte === quote) {
            this.#valueByte(byte)
            this.#state = inQuoted
          } else if (byte === comma || byte === lineFeed || byte === carriageReturn) this.#separator(byte)
          else throw csvQuoteFollowed()
      }
    }
  }

  #separator(byte: number): void {
    if (byte === comma) {
      this.#endValue()
      this.#state = atField
    } else {
      this.#endRecord()
      this.#state = byte === lineFeed ? atRecord : afterReturn
    }
  }

  #beginRecord(): void {
    scratch[this.#filled++] = this.#records++ === 0 ? openBracket : comma
  }

  #endRecord(): void {
    this.#endValue()
    if (this.#header !== undefined) this.#endHeader(this.#header)
    else {
      if (this.#place !== this.#prefixes.length) this.#isUneven = true
      scratch[this.#filled++] = closeBrace
    }
    this.#place = 0
  }

  #endHeader({ names }: Header): void {
    this.#header = undefined
    for (const [index, name] of names.entries()) this.#keys.set(name, keyOf(index))
    let before = '{'
    this.#prefixes = names.map((name, index) => {
      if (this.#keys.get(name) !== keyOf(index)) return undefined
      const prefix = Buffer.from(`${before}"${keyOf(index)}":`)
      before = ','
      return prefix
    })
  }

  get #isSelected(): boolean {
    return this.#prefixes[this.#place] !== undefined
  }

  #beginValue(): void {
    this.#nullBytes = 0
    const prefix = this.#prefixes[this.#place]
    if (prefix !== undefined) this.#write(prefix)
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) scratch[this.#filled++] = bytes[at] as number // `at` is within the bytes
  }

  #valueByte(byte: number): void {
    if (this.#header !== undefined) {
      this.#header.byte(byte)
      return
    }
    if (!this.#isSelected) return
    if (this.#nullBytes >= 0) {
      if (byte === nullText[this.#nullBytes]) {
        this.#nullBytes++
        return
      }
      this.#beginText()
    }
    const standIn = escaped[byte]
    if (standIn === undefined) scratch[this.#filled++] = byte
    else this.#write(standIn)
  }

  /** The value is not NULL. Writes the bytes that were held back while the value could be NULL. */
  #beginText(): void {
    scratch[this.#filled++] = quote
    this.#write(nullText.subarray(0, this.#nullBytes))
    this.#nullBytes = -1
  }

  #endValue(): void {
    if (this.#header !== undefined) this.#header.endName()
    else if (this.#isSelected) {
      if (this.#nullBytes === nullText.length) this.#write(nullJson)
      else {
        if (this.#nullBytes >= 0) this.#beginText()
        scratch[this.#filled++] = quote
      }
    }
    this.#place++
  }
}
