/**
 * Scans JSON (RFC 8259) as it arrives, byte by byte, without building values. It checks whether the JSON is valid and
 * how deep it nests. It collects the keys of the records: the object itself, or a list's objects. Time is linear in the
 * bytes, and memory grows only with the first record's keys, wherever a body is split.
 */
import { invalidJson, jsonTooDeep } from '../errors/catalogue.ts'
import { maximumKeyBytes, RecordKeys } from './record-keys.ts'

/** The maximum nesting of JSON. Postgres parses JSON recursively, within its stack limit. */
export const maximumJsonDepth = 500
const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const minus = 0x2d
const plus = 0x2b
const point = 0x2e
const zero = 0x30

/** The scanner's states: what may follow. */
const atValue = 0
const atFirstElement = 1
const atFirstKey = 2
const atKey = 3
const inKey = 4
const atColon = 5
const inString = 6
const afterValue = 7
const afterBackslash = 8
const inUnicode = 9
const inLiteral = 10
const afterMinus = 11
const afterZero = 12
const inInteger = 13
const afterPoint = 14
const inFraction = 15
const afterExponent = 16
const afterExponentSign = 17
const inExponent = 18

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
const isDigit = (byte: number): boolean => byte >= zero && byte <= 0x39
const isExponent = (byte: number): boolean => (byte | 0x20) === 0x65
const isHexadecimal = (byte: number): boolean => isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)

const literals = new Map(['true', 'false', 'null'].map(text => [text.charCodeAt(0), Buffer.from(text)]))
const noBytes = Buffer.alloc(0)
/** What may follow a backslash, except u. */
const escapes = new Set(Buffer.from('"\\/bfnrt'))

export type JsonShape = {
  readonly kind: 'object' | 'array' | 'scalar'
  /** The keys of the object, or of the list's first object, in the order of Object.keys. At most `maximumKeys`. */
  readonly keys: readonly string[]
  /** For a list: whether all elements are objects with the same keys. */
  readonly isUniform: boolean
}

export class JsonScanner {
  #state = atValue
  /** The state after an escape: in a key or in a string value. */
  #outer = inString
  #depth = 0
  /** For each nesting depth: 1 if the open container is an object, 0 if it is a list. */
  readonly #isObject = new Uint8Array(maximumJsonDepth + 1)
  /** The rest of `true`, `false` or `null`, or how many digits of an escape remain. */
  #literal = noBytes
  #literalAt = 0
  #digits = 0

  #kind: JsonShape['kind'] | undefined
  readonly #keys = new RecordKeys()
  /** The nesting depth of record keys. */
  #recordDepth = 1
  /** The part of a record's key that arrived in earlier chunks. */
  #keyBefore = noBytes
  #isKeyEscaped = false
  #isKeyTruncated = false

  /** @throws RestError if the bytes cannot be JSON, or nest too deep */
  push(chunk: Buffer): void {
    const { length } = chunk
    let state = this.#state
    let keyFrom = 0
    for (let at = 0; at < length; at++) {
      let byte = chunk[at] as number // `at` is within the chunk
      switch (state) {
        case inString:
        case inKey:
          while (byte !== quote && byte !== backslash && byte >= 0x20) {
            if (++at === length) break
            byte = chunk[at] as number // as above
          }
          if (at === length) break
          if (byte === quote) {
            if (state === inKey) {
              if (this.#depth === this.#recordDepth) this.#endKey(chunk, keyFrom, at)
              state = atColon
            } else state = afterValue
          } else if (byte === backslash) {
            this.#outer = state
            if (state === inKey) this.#isKeyEscaped = true
            state = afterBackslash
          } else throw invalidJson()
          break
        case afterValue:
          if (byte === comma && this.#depth > 0) state = this.#isObject[this.#depth] === 1 ? atKey : atValue
          else if (byte === closeBrace || byte === closeBracket) this.#close(byte)
          else if (!isSpace(byte)) throw invalidJson()
          break
        case atFirstKey:
        case atKey:
          if (byte === quote) {
            state = inKey
            keyFrom = at + 1
            this.#isKeyEscaped = false
            this.#isKeyTruncated = false
          } else if (byte === closeBrace && state === atFirstKey) {
            this.#close(byte)
            state = afterValue
          } else if (!isSpace(byte)) throw invalidJson()
          break
        case atColon:
          if (byte === colon) state = atValue
          else if (!isSpace(byte)) throw invalidJson()
          break
        case atFirstElement:
          if (byte === closeBracket) {
            this.#close(byte)
            state = afterValue
            break
          }
          state = this.#value(byte, state)
          break
        case atValue:
          state = this.#value(byte, state)
          break
        case afterBackslash:
          if (byte === 0x75) {
            this.#digits = 4
            state = inUnicode
          } else if (escapes.has(byte)) state = this.#outer
          else throw invalidJson()
          break
        case inUnicode:
          if (!isHexadecimal(byte)) throw invalidJson()
          if (--this.#digits === 0) state = this.#outer
          break
        case inLiteral:
          if (byte !== this.#literal[this.#literalAt]) throw invalidJson()
          if (++this.#literalAt === this.#literal.length) state = afterValue
          break
        default: {
          // A number ends at any other byte. The scanner processes this byte again.
          while (state !== afterValue) {
            while ((state === inInteger || state === inFraction) && isDigit(byte) && at + 1 < length) {
              byte = chunk[++at] as number // as above
            }
            state = this.#number(byte, state)
            if (state === afterValue || ++at === length) break
            byte = chunk[at] as number // as above
          }
          if (state === afterValue) at--
        }
      }
    }
    if (state === inKey || ((state === afterBackslash || state === inUnicode) && this.#outer === inKey)) {
      if (this.#depth === this.#recordDepth) this.#keepKey(chunk, keyFrom)
    }
    this.#state = state
  }

  /** @throws RestError if the text is incomplete */
  end(): JsonShape {
    const isComplete = this.#state === afterValue || this.#isNumberThatMayEnd()
    if (!isComplete || this.#depth > 0 || this.#kind === undefined) throw invalidJson()
    return { kind: this.#kind, keys: this.#keys.names(), isUniform: this.#keys.isUniform }
  }

  #isNumberThatMayEnd(): boolean {
    const state = this.#state
    return state === afterZero || state === inInteger || state === inFraction || state === inExponent
  }

  /** The state after the first byte of a value, or after a space before it. */
  #value(byte: number, state: number): number {
    if (isSpace(byte)) return state
    if (byte !== openBrace && this.#depth === 1 && this.#recordDepth === 2) this.#keys.isUniform = false
    if (this.#kind === undefined) this.#begin(byte)
    if (byte === quote) return inString
    if (byte === openBrace || byte === openBracket) return this.#open(byte)
    if (byte === minus) return afterMinus
    if (byte === zero) return afterZero
    if (isDigit(byte)) return inInteger
    const literal = literals.get(byte)
    if (literal === undefined) throw invalidJson()
    this.#literal = literal
    this.#literalAt = 1
    return inLiteral
  }

  #begin(byte: number): void {
    this.#kind = byte === openBrace ? 'object' : byte === openBracket ? 'array' : 'scalar'
    if (byte === openBracket) this.#recordDepth = 2
  }

  #open(byte: number): number {
    if (++this.#depth > maximumJsonDepth) {
      throw jsonTooDeep(maximumJsonDepth)
    }
    const isObject = byte === openBrace
    this.#isObject[this.#depth] = isObject ? 1 : 0
    if (isObject && this.#depth === this.#recordDepth) this.#keys.begin()
    return isObject ? atFirstKey : atFirstElement
  }

  #close(byte: number): void {
    if (this.#depth === 0 || (this.#isObject[this.#depth] === 1) !== (byte === closeBrace)) throw invalidJson()
    if (byte === closeBrace && this.#depth === this.#recordDepth) this.#keys.end()
    this.#depth--
  }

  /** The state after one more byte of a number. `afterValue` if the byte is not part of the number. */
  #number(byte: number, state: number): number {
    switch (state) {
      case afterMinus:
        if (byte === zero) return afterZero
        if (isDigit(byte)) return inInteger
        break
      case inInteger:
      case afterZero:
        if (state === inInteger && isDigit(byte)) return inInteger
        if (byte === point) return afterPoint
        return isExponent(byte) ? afterExponent : afterValue
      case afterPoint:
        if (isDigit(byte)) return inFraction
        break
      case inFraction:
        if (isDigit(byte)) return inFraction
        return isExponent(byte) ? afterExponent : afterValue
      case afterExponent:
        if (byte === plus || byte === minus) return afterExponentSign
        if (isDigit(byte)) return inExponent
        break
      case afterExponentSign:
        if (isDigit(byte)) return inExponent
        break
      case inExponent:
        return isDigit(byte) ? inExponent : afterValue
    }
    throw invalidJson()
  }

  /** The start of a record's key. The key ends in another chunk. */
  #keepKey(chunk: Buffer, from: number): void {
    const available = maximumKeyBytes - this.#keyBefore.length
    const end = Math.min(chunk.length, from + available)
    if (chunk.length > end) this.#isKeyTruncated = true
    if (end > from) this.#keyBefore = Buffer.concat([this.#keyBefore, chunk.subarray(from, end)])
  }

  #endKey(chunk: Buffer, from: number, end: number): void {
    const isComplete = this.#keyBefore.length === 0 && end - from <= maximumKeyBytes
    if (isComplete && this.#keys.takesSame(chunk, from, end)) return
    if (!isComplete) this.#keepKey(chunk.subarray(0, end), from)
    const written = isComplete ? chunk.subarray(from, end) : this.#keyBefore
    this.#keys.key(written, this.#isKeyEscaped, this.#isKeyTruncated)
    this.#keyBefore = noBytes
  }
}
