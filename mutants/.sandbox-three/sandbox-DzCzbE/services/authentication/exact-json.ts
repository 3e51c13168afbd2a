/**
 * JSON as it stands. JSON.parse of V8 13.6 takes a key that is written with an escape for another one that ends in a backslash, if it has seen that one before in an
 * object with the same keys; so whoever has an object of his own parsed could have a claim of somebody else's token read under another name. A text with escapes is
 * therefore put together here, of parts that JSON.parse reads one by one: strings, numbers and literals are not concerned.
 */
// @ts-nocheck


/**
 * What ECMAScript 2026 adds to JSON ("JSON.parse source text access"): Node 24 has it, TypeScript's library does not.
 * A number written as raw JSON is an object that JSON.stringify puts out as it stood.
 */
type ExactJson = {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  rawJSON(text: string): object
  isRawJSON(value: unknown): value is { rawJSON: string }
}
// A cast at the boundary to the runtime, which has what its types lack.
export const exactJson = JSON as unknown as ExactJson

/** Digits that a double holds for certain. */
const safeDigits = 15

function exactNumber(value: unknown, source: string | undefined): unknown {
  if (typeof value !== 'number' || source === undefined) return value
  const digits = source
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replace(/^0+/, '')
  return Number.isFinite(value) && digits.length <= safeDigits ? value : exactJson.rawJSON(source)
}

/** A string, a bracket, a colon or comma, or a number or literal. */
const part = /[\t\n\r ]*("(?:[^"\\]|\\.)*"|[{}[\],:]|[^\t\n\r "{}[\],:]+)/y

/** Takes apart what JSON.parse has found to be JSON. */
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
 * The value of a text. A number that a double cannot hold, as an identifier of 64 bits, is kept as raw JSON, which JSON.stringify gives back digit by digit.
 * @throws SyntaxError of what is no JSON; RangeError where it nests too deep to be read
 */
export function parseExactly(text: string): unknown {
  const value = exactJson.parse(text, (_key, inner, { source }) => exactNumber(inner, source))
  return text.includes('\\') ? new Parts(text).value() : value
}
