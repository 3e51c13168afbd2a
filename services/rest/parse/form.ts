/**
 * Decodes a form (application/x-www-form-urlencoded) as it arrives, byte by byte. Time and memory are linear in the
 * bytes, wherever chunks are split. Invalid UTF-8 becomes U+FFFD, since Postgres refuses invalid UTF-8.
 */

import type { Bytes } from '../../../wire/messages.ts'
import { Pieces } from '../../http/pieces.ts'
import { nulInQuery, tooManyParameters } from '../errors/catalogue.ts'
import { maximumParameters } from './query.ts'
import { maximumKeyBytes } from './record-keys.ts'

const ampersand = 0x26
const equals = 0x3d
const percent = 0x25
const plus = 0x2b
const space = 0x20

/**
 * How many bytes are decoded at a time. All readers share the buffer, since no reader awaits while it uses the buffer.
 */
const sliceBytes = 8_192
/** A percent sign and a digit may be pending. */
const scratch = Buffer.allocUnsafe(sliceBytes + 2)

/** Returns -1 if the byte is not a hexadecimal digit. */
function digitOf(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

/** Receives the fields: a name, its value in parts, and its end. */
type FormSink = { begin(name: string): void; text(part: string): void; endField(): void }

class FormReader {
  readonly #sink: FormSink
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #name = Buffer.allocUnsafe(maximumKeyBytes)
  #nameLength = 0
  #isNameTruncated = false
  #isInValue = false
  /** Whether the field has any bytes. Two adjacent ampersands have no field between them. */
  #hasBegun = false
  #parts = 1
  /** Pending: 1 a percent sign, 2 a percent sign and a digit. */
  #escape = 0
  #digit = 0
  #filled = 0

  constructor(sink: FormSink) {
    this.#sink = sink
  }

  /** @throws RestError for too many fields, or NUL */
  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; from += sliceBytes) {
      const end = Math.min(chunk.length, from + sliceBytes)
      for (let at = from; at < end; at++) this.#byte(chunk[at] as number) // `at` is within the chunk
      this.#passOn()
    }
  }

  end(): void {
    this.#releaseEscape()
    this.#endField()
  }

  #byte(byte: number): void {
    if (this.#escape > 0 && this.#continueEscape(byte)) return
    switch (byte) {
      case ampersand:
        this.#endField()
        if (++this.#parts > maximumParameters) throw tooManyParameters(maximumParameters)
        return
      case equals:
        this.#hasBegun = true
        if (this.#isInValue) this.#decoded(byte)
        else this.#beginValue()
        return
      case percent:
        this.#hasBegun = true
        this.#escape = 1
        return
      default:
        this.#decoded(byte === plus ? space : byte)
    }
  }

  /** Whether the byte belongs to the escape. If not, the pending bytes are literal. */
  #continueEscape(byte: number): boolean {
    const digit = digitOf(byte)
    if (digit === -1) {
      this.#releaseEscape()
      return false
    }
    if (this.#escape === 1) {
      this.#digit = byte
      this.#escape = 2
    } else {
      this.#escape = 0
      this.#decoded(16 * digitOf(this.#digit) + digit)
    }
    return true
  }

  #releaseEscape(): void {
    const escapeLength = this.#escape
    this.#escape = 0
    if (escapeLength > 0) this.#decoded(percent)
    if (escapeLength > 1) this.#decoded(this.#digit)
  }

  #decoded(byte: number): void {
    if (byte === 0) throw nulInQuery()
    this.#hasBegun = true
    if (this.#isInValue) scratch[this.#filled++] = byte
    else if (this.#nameLength < maximumKeyBytes) this.#name[this.#nameLength++] = byte
    else this.#isNameTruncated = true
  }

  #beginValue(): void {
    this.#sink.begin(`${this.#name.toString('utf8', 0, this.#nameLength)}${this.#isNameTruncated ? '…' : ''}`)
    this.#isInValue = true
    this.#nameLength = 0
    this.#isNameTruncated = false
  }

  #passOn(): void {
    if (this.#filled > 0) this.#sink.text(this.#decoder.decode(scratch.subarray(0, this.#filled), { stream: true }))
    this.#filled = 0
  }

  #endField(): void {
    if (!this.#hasBegun) return
    if (!this.#isInValue) this.#beginValue()
    this.#passOn()
    this.#sink.text(this.#decoder.decode())
    this.#sink.endField()
    this.#isInValue = false
    this.#hasBegun = false
  }
}

export type Fields = readonly (readonly [name: string, value: Bytes])[]

/** Collects the fields of a form. */
export class FormFieldsReader {
  readonly #fields: [name: string, value: Pieces][] = []
  readonly #reader: FormReader
  bufferedBytes = 0

  constructor() {
    let value = new Pieces()
    this.#reader = new FormReader({
      begin: name => {
        value = new Pieces()
        this.#fields.push([name, value])
      },
      text: part => {
        const before = value.length
        value.add(Buffer.from(part))
        this.bufferedBytes += value.length - before
      },
      endField: () => {},
    })
  }

  push(chunk: Buffer): void {
    this.#reader.push(chunk)
  }

  end(): Fields {
    this.#reader.end()
    return this.#fields.map(([name, value]) => [name, value.bytes()])
  }
}

/** Writes a form as one JSON object of strings. */
export class FormRecordReader {
  readonly #json = new Pieces()
  readonly #names = new Set<string>()
  readonly #reader: FormReader

  constructor() {
    this.#reader = new FormReader({
      begin: name => {
        this.#json.addCopy(Buffer.from(`${this.#names.size === 0 ? '{' : ','}${JSON.stringify(name)}:"`))
        this.#names.add(name)
      },
      text: part => this.#json.addCopy(Buffer.from(JSON.stringify(part).slice(1, -1))),
      endField: () => this.#json.addCopy(Buffer.from('"')),
    })
  }

  get bufferedBytes(): number {
    return this.#json.length
  }

  push(chunk: Buffer): void {
    this.#reader.push(chunk)
  }

  end(): { json: Bytes; names: readonly string[] } {
    this.#reader.end()
    this.#json.addCopy(Buffer.from(this.#names.size === 0 ? '{}' : '}'))
    return { json: this.#json.bytes(), names: [...this.#names] }
  }
}
