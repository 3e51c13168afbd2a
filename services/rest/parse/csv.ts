/**
 * CSV (RFC 4180) while it comes, made into JSON for Postgres byte by byte: a list of records whose values are texts, or null for NULL. The keys are the numbers of the
 * columns, not their names: a name of sixty letters before each value would be most of what Postgres has to read. It promises that its work grows with the bytes, and that
 * what it makes is at most nine times as long.
 */

import { Pieces } from '../../http/pieces.ts'
import type { Bytes } from '../../postgres/messages.ts'
import { csvQuoteFollowed, csvQuoteOpen, csvTooWide, emptyCsv, unevenCsv } from '../errors/catalogue.ts'
import { maximumKeyBytes } from './record-keys.ts'

/** As many as a relation can have (Postgres manual, appendix K). */
export const maximumFields = 1_600

const quote = 0x22
const comma = 0x2c
const lineFeed = 0x0a
const carriageReturn = 0x0d
const backslash = 0x5c
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** What may come next. */
const atRecord = 0
const atField = 1
const inField = 2
const inQuoted = 3
const afterQuote = 4
/** Behind a carriage return, where a line feed belongs to it. */
const afterReturn = 5

const hexadecimal = '0123456789abcdef'
/** What stands for a byte that JSON does not hold in a text as it is. */
const escaped: readonly (Buffer | undefined)[] = Array.from({ length: 256 }, (_, byte) => {
  if (byte === quote || byte === backslash) return Buffer.from([backslash, byte])
  return byte < 0x20 ? Buffer.from(`\\u00${hexadecimal[byte >> 4]}${hexadecimal[byte & 15]}`) : undefined
})
const nullText = Buffer.from('NULL')
const nullJson = Buffer.from('null')

/** So many bytes are made into JSON at a time; all readers share the room for it, since none of them waits in the middle. */
const sliceBytes = 8_192
/** One byte may end a value, a record and begin the next: twelve bytes of JSON at most. */
const room = Buffer.allocUnsafe(16 * sliceBytes)

const letters = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
/** How the JSON names the column at a place: in one letter or two. */
const keyOf = (place: number): string =>
  (place < letters.length ? '' : keyOf(Math.floor(place / letters.length))) + letters[place % letters.length]

type CsvRecords = {
  /** A list of objects. */
  readonly json: Bytes
  /** By the column's name its key in the JSON; of several columns of one name, the last one's. */
  readonly keys: ReadonlyMap<string, string>
  /** Whether there is no record. */
  readonly isEmpty: boolean
}

/** The names of the first line. */
class Header {
  readonly names: string[] = []
  readonly #name = Buffer.allocUnsafe(maximumKeyBytes)
  #length = 0
  #isCut = false

  byte(byte: number): void {
    if (this.#length < maximumKeyBytes) this.#name[this.#length++] = byte
    else this.#isCut = true
  }

  endName(): void {
    if (this.names.length === maximumFields) throw csvTooWide(maximumFields)
    this.names.push(`${this.#name.toString('utf8', 0, this.#length)}${this.#isCut ? '…' : ''}`)
    this.#length = 0
    this.#isCut = false
  }
}

export class CsvReader {
  readonly #json = new Pieces()
  #state = atRecord
  /** Until the first line is read. */
  #header: Header | undefined = new Header()
  readonly #keys = new Map<string, string>()
  /** What stands before a value, by its place; of a column whose name comes again, nothing does, nor the value. */
  #prefixes: readonly (Buffer | undefined)[] = []
  #place = 0
  #records = 0
  #isUneven = false
  /** How many bytes the value has that NULL begins with; -1 once it is another one. */
  #nullBytes = 0
  /** How much of the room is filled. */
  #filled = 0

  /** How many bytes it holds. */
  get held(): number {
    return this.#json.length
  }

  /** @throws RestError of what can be no CSV */
  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; from += sliceBytes) {
      this.#slice(chunk.subarray(from, from + sliceBytes))
      this.#keep()
    }
  }

  /** @throws RestError of what is no CSV */
  end(): CsvRecords {
    if (this.#state === inQuoted) throw csvQuoteOpen()
    if (this.#state !== atRecord && this.#state !== afterReturn) {
      if (this.#state === atField) this.#beginValue()
      this.#endRecord()
    }
    if (this.#header !== undefined) throw emptyCsv()
    if (this.#isUneven) throw unevenCsv()
    if (this.#records === 0) room[this.#filled++] = openBracket
    room[this.#filled++] = closeBracket
    this.#keep()
    return { json: this.#json.bytes(), keys: this.#keys, isEmpty: this.#records === 0 }
  }

  #keep(): void {
    if (!this.#isUneven) this.#json.addCopy(room.subarray(0, this.#filled))
    this.#filled = 0
  }

  #slice(slice: Buffer): void {
    for (let at = 0; at < slice.length; at++) {
      const byte = slice[at] as number // at is within the slice
      switch (this.#state) {
        case afterReturn:
          this.#state = atRecord
          if (byte !== lineFeed) at--
          break
        case atRecord:
          if (this.#header === undefined) {
            // A line without anything is no record.
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
    room[this.#filled++] = this.#records++ === 0 ? openBracket : comma
  }

  #endRecord(): void {
    this.#endValue()
    if (this.#header !== undefined) this.#endHeader(this.#header)
    else {
      if (this.#place !== this.#prefixes.length) this.#isUneven = true
      room[this.#filled++] = closeBrace
    }
    this.#place = 0
  }

  #endHeader({ names }: Header): void {
    this.#header = undefined
    for (const [place, name] of names.entries()) this.#keys.set(name, keyOf(place))
    let before = '{'
    this.#prefixes = names.map((name, place) => {
      if (this.#keys.get(name) !== keyOf(place)) return undefined
      const prefix = Buffer.from(`${before}"${keyOf(place)}":`)
      before = ','
      return prefix
    })
  }

  get #isKept(): boolean {
    return this.#prefixes[this.#place] !== undefined
  }

  #beginValue(): void {
    this.#nullBytes = 0
    const prefix = this.#prefixes[this.#place]
    if (prefix !== undefined) this.#write(prefix)
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at++) room[this.#filled++] = bytes[at] as number // at is within the bytes
  }

  #valueByte(byte: number): void {
    if (this.#header !== undefined) {
      this.#header.byte(byte)
      return
    }
    if (!this.#isKept) return
    if (this.#nullBytes >= 0) {
      if (byte === nullText[this.#nullBytes]) {
        this.#nullBytes++
        return
      }
      this.#beginText()
    }
    const standIn = escaped[byte]
    if (standIn === undefined) room[this.#filled++] = byte
    else this.#write(standIn)
  }

  /** The value is not NULL: what was held back until that was known. */
  #beginText(): void {
    room[this.#filled++] = quote
    this.#write(nullText.subarray(0, this.#nullBytes))
    this.#nullBytes = -1
  }

  #endValue(): void {
    if (this.#header !== undefined) this.#header.endName()
    else if (this.#isKept) {
      if (this.#nullBytes === nullText.length) this.#write(nullJson)
      else {
        if (this.#nullBytes >= 0) this.#beginText()
        room[this.#filled++] = quote
      }
    }
    this.#place++
  }
}
