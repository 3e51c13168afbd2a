/**
 * The keys of a JSON array of objects, without building the objects: most bulk writes are long lists of records with the same keys in the same order, and all
 * that has to be known here is that they are. Values are stepped over, not checked; Postgres reads them.
 */

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

class KeyScanner {
  readonly #body: Buffer
  readonly #maximumDepth: number
  /** Where the keys of the first object stand. */
  readonly #first: { start: number; end: number }[] = []
  #at = 0

  constructor(body: Buffer, maximumDepth: number) {
    this.#body = body
    this.#maximumDepth = maximumDepth
  }

  #skipSpace(): void {
    while (isSpace(this.#body[this.#at])) this.#at++
  }

  #takes(byte: number): boolean {
    this.#skipSpace()
    if (this.#body[this.#at] !== byte) return false
    this.#at++
    return true
  }

  /** Behind the closing quote of a string whose opening one has been taken. */
  #skipString(): void {
    for (; this.#at < this.#body.length; this.#at++) {
      const byte = this.#body[this.#at]
      if (byte === backslash) this.#at++
      else if (byte === quote) {
        this.#at++
        return
      }
    }
  }

  /** Up to the comma or brace that ends a value; false where there is none, or it nests too deep. */
  #skipValue(): boolean {
    let depth = 0
    for (; this.#at < this.#body.length; this.#at++) {
      const byte = this.#body[this.#at]
      if (byte === quote) {
        this.#at++
        this.#skipString()
        this.#at--
      } else if (byte === openBrace || byte === openBracket) {
        if (++depth > this.#maximumDepth) return false
      } else if (byte === closeBrace || byte === closeBracket) {
        if (depth === 0) return byte === closeBrace
        depth--
      } else if (byte === comma && depth === 0) return true
    }
    return false
  }

  /** Whether the key that stands here is the first object's at this place. */
  #isSameKey(start: number, end: number, index: number): boolean {
    const first = this.#first[index]
    if (first === undefined || first.end - first.start !== end - start) return false
    for (let offset = 0; offset < end - start; offset++) {
      if (this.#body[start + offset] !== this.#body[first.start + offset]) return false
    }
    return true
  }

  /** Takes a key that is written without escapes. */
  #key(index: number, isFirst: boolean): boolean {
    if (!this.#takes(quote)) return false
    const start = this.#at
    for (let byte = this.#body[this.#at]; byte !== quote; byte = this.#body[++this.#at]) {
      if (byte === undefined || byte === backslash || byte < 0x20) return false
    }
    const end = this.#at++
    if (isFirst) this.#first.push({ start, end })
    else if (!this.#isSameKey(start, end, index)) return false
    return this.#takes(colon)
  }

  #object(isFirst: boolean): boolean {
    if (!this.#takes(openBrace)) return false
    if (this.#takes(closeBrace)) return isFirst || this.#first.length === 0
    let index = 0
    do {
      if (!this.#key(index++, isFirst) || !this.#skipValue()) return false
    } while (this.#takes(comma))
    return this.#takes(closeBrace) && index === this.#first.length
  }

  keys(): string[] | undefined {
    if (!this.#takes(openBracket)) return undefined
    if (!this.#object(true)) return undefined
    while (this.#takes(comma)) if (!this.#object(false)) return undefined
    if (!this.#takes(closeBracket)) return undefined
    this.#skipSpace()
    if (this.#at < this.#body.length) return undefined
    const keys = this.#first.map(({ start, end }) => this.#body.toString('utf8', start, end))
    return new Set(keys).size === keys.length ? keys : undefined
  }
}

/**
 * The keys that all objects of an array have, in the same order. Undefined where the body is anything else: it may still be an array of objects, whose keys
 * are in another order or written with escapes, or be no JSON at all.
 */
export const commonKeys = (body: Buffer, maximumDepth: number): string[] | undefined =>
  new KeyScanner(body, maximumDepth).keys()
