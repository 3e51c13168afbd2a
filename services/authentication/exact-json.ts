/**
 * Parses JSON exactly. V8 13.6's JSON.parse has a bug: it confuses an escaped key with another key that ends in a
 * backslash. This happens if it parsed the other key before, in an object with the same keys. An attacker whose object
 * is parsed could then make another user's claim appear under another name. So this module assembles a text with
 * escapes from parts that JSON.parse reads one by one. The bug does not affect strings, numbers and literals.
 */

/**
 * ECMAScript 2026's JSON.parse source text access. Node 24 has it, and TypeScript's library does not. A number as raw
 * JSON is an object that JSON.stringify writes unchanged.
 */
type ExactJson = {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  rawJSON(text: string): object
  isRawJSON(value: unknown): value is { rawJSON: string }
}
// A cast, because the runtime has functions that the types lack.
export const exactJson = JSON as unknown as ExactJson

/** How many digits a double always represents exactly. */
const safeDigits = 15

function exactNumber(value: unknown, source: string | undefined): unknown {
  if (typeof value !== 'number' || source === undefined) return value
  const digits = source
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replace(/^0+/, '')
  return Number.isFinite(value) && digits.length <= safeDigits ? value : exactJson.rawJSON(source)
}

/** A token: a string, a bracket, a colon or comma, or a number or literal. */
const part = /[\t\n\r ]*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\t\n\r "{}[\],:]+)/y

/** Tokenizes text that JSON.parse has accepted. */
class Parts {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  #next(): string {
    part.lastIndex = this.#at
    const found = part.exec(this.#text)?.[1]
    if (found === undefined) throw new SyntaxError('no JSON')
    this.#at = part.lastIndex
    return found
  }

  value(first = this.#next()): unknown {
    if (first === '{') return this.#object()
    if (first === '[') return this.#list()
    return exactNumber(JSON.parse(first), first)
  }

  #object(): unknown {
    const members: [string, unknown][] = []
    for (let next = this.#next(); next !== '}'; next = this.#next()) {
      const key = next === ',' ? this.#next() : next
      this.#next()
      members.push([String(JSON.parse(key)), this.value()])
    }
    return Object.fromEntries(members)
  }

  #list(): unknown {
    const list: unknown[] = []
    for (let next = this.#next(); next !== ']'; next = this.#next())
      list.push(this.value(next === ',' ? undefined : next))
    return list
  }
}

/**
 * The value of a text. A number that a double cannot represent, such as a 64-bit identifier, stays raw JSON, which
 * JSON.stringify writes unchanged.
 * @throws SyntaxError if the text is not JSON; RangeError if it nests too deep
 */
export function parseExactly(text: string): unknown {
  const value = exactJson.parse(text, (_key, inner, { source }) => exactNumber(inner, source))
  return text.includes('\\') ? new Parts(text).value() : value
}
