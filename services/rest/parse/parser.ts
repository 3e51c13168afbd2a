/**
 * Parser combinators. A failed parser knows how far the text matched and what was expected. Choice, backtracking and
 * error merging follow Parsec (Leijen and Meijer, 2001), which PostgREST uses. The conformance cases and
 * differential.test.ts compare the text and column of each error. They contain no tabs or line breaks, so both count as
 * one character here.
 */
import { unparsable } from '../errors/catalogue.ts'

/** Why the parser stopped: at `found` is an unexpected character. `refused` was read, but is not allowed. */
type Expectation = {
  readonly at: number
  readonly found: number | undefined
  readonly refused: readonly string[]
  readonly expected: readonly string[]
}

/**
 * `consumed`: whether the parser read past its start. A choice tries its next alternative only if the parser did not.
 */
type Success<T> = {
  readonly ok: true
  readonly consumed: boolean
  readonly at: number
  readonly value: T
  readonly left: Expectation
}
type Failure = { readonly ok: false; readonly consumed: boolean; readonly left: Expectation }
export type Parser<T> = (text: string, at: number) => Success<T> | Failure

const none: readonly string[] = []
const nothing = (at: number): Expectation => ({ at, found: undefined, refused: none, expected: none })
const isNothing = ({ found, refused, expected }: Expectation): boolean =>
  found === undefined && refused.length === 0 && expected.length === 0

const union = (one: readonly string[], other: readonly string[]): readonly string[] =>
  other.every(text => one.includes(text)) ? one : [...new Set([...one, ...other])]

/** Keeps the error that is later in the text. Merges errors at the same position. */
function merged(one: Expectation, other: Expectation): Expectation {
  if (isNothing(other)) return isNothing(one) && other.at > one.at ? other : one
  if (isNothing(one) || other.at > one.at) return other
  if (one.at > other.at) return one
  return {
    at: one.at,
    found: one.found ?? other.found,
    refused: union(one.refused, other.refused),
    expected: union(one.expected, other.expected),
  }
}

const unexpected = (at: number, expected: readonly string[]): Failure => ({
  ok: false,
  consumed: false,
  left: { at, found: at, refused: none, expected },
})

const success = <T>(at: number, value: T, consumed: boolean, left: Expectation = nothing(at)): Success<T> => ({
  ok: true,
  consumed,
  at,
  value,
  left,
})

export const always =
  <T>(value: T): Parser<T> =>
  (_, at) =>
    success(at, value, false)

/** Fails without an expectation. */
export const never: Parser<never> = (_, at) => ({ ok: false, consumed: false, left: nothing(at) })

/**
 * Matches one of several words with one pattern. If no word matches, `otherwise` gives the error. The pattern is
 * sticky, and matches only these words.
 */
export const found =
  <T extends string>(pattern: RegExp, words: Parser<T>): Parser<T> =>
  (text, at) => {
    pattern.lastIndex = at
    const word = pattern.exec(text)?.[0]
    // The match is one of the words.
    return word === undefined ? words(text, at) : success(at + word.length, word as T, true)
  }

/** Matches exactly this text. If only the text's first characters match, the parser has consumed them. */
export function token(word: string): Parser<string> {
  const expected = [JSON.stringify(word)]
  return (text, at) => {
    if (text.startsWith(word, at)) return success(at + word.length, word, true)
    let same = 0
    while (same < word.length && text[at + same] === word[same]) same++
    const left = { at, found: at + same, refused: none, expected }
    return { ok: false, consumed: same > 0, left }
  }
}

/** Matches one or more characters of a sticky pattern, as many as possible. `expected` names what else could follow. */
export const some =
  (pattern: RegExp, expected: readonly string[] = []): Parser<string> =>
  (text, at) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0] ?? ''
    if (found === '') return unexpected(at, expected)
    return success(at + found.length, found, true, unexpected(at + found.length, expected).left)
  }

/** The same for zero or more characters. */
export const any =
  (pattern: RegExp, expected: readonly string[] = []): Parser<string> =>
  (text, at) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0] ?? ''
    return success(at + found.length, found, found !== '', unexpected(at + found.length, expected).left)
  }

/** A sequence. The second parser depends on the first result. */
export const chain =
  <T, U>(first: Parser<T>, next: (value: T) => Parser<U>): Parser<U> =>
  (text, at) => {
    const one = first(text, at)
    if (!one.ok) return one
    const two = next(one.value)(text, one.at)
    if (two.consumed) return two
    return { ...two, consumed: one.consumed, left: merged(one.left, two.left) }
  }

export const map = <T, U>(parser: Parser<T>, change: (value: T) => U): Parser<U> => {
  return (text, at) => {
    const found = parser(text, at)
    return found.ok ? { ...found, value: change(found.value) } : found
  }
}

/** A sequence that returns the first result. */
export const before = <T>(first: Parser<T>, second: Parser<unknown>): Parser<T> =>
  chain(first, value => map(second, () => value))
/** A sequence that returns the second result. */
export const after = <T>(first: Parser<unknown>, second: Parser<T>): Parser<T> => chain(first, () => second)

/** Returns the first alternative that matches. If an alternative fails after it consumed input, the choice fails. */
export const choice =
  <T>(...parsers: readonly Parser<T>[]): Parser<T> =>
  (text, at) => {
    let left = nothing(at)
    for (const parser of parsers) {
      const found = parser(text, at)
      if (found.consumed) return found
      left = merged(left, found.left)
      if (found.ok) return { ...found, left }
    }
    return { ok: false, consumed: false, left }
  }

/** A failure counts as not having consumed input. */
export const attempt =
  <T>(parser: Parser<T>): Parser<T> =>
  (text, at) => {
    const found = parser(text, at)
    return found.ok ? found : { ...found, consumed: false }
  }

export const optional = <T>(parser: Parser<T>): Parser<T | undefined> =>
  choice<T | undefined>(parser, always(undefined))

/** Checks whether the parser matches, without consuming input. */
export const ahead =
  (parser: Parser<unknown>): Parser<undefined> =>
  (text, at) => {
    const found = parser(text, at)
    return found.ok ? success(at, undefined, false) : found
  }

/** Refuses a character that a sticky pattern matches. `isPassed`: the position is after that character. */
const unless =
  (pattern: RegExp, isPassed: boolean, expected: readonly string[]): Parser<undefined> =>
  (text, at) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0]
    if (found === undefined || found === '') return success(at, undefined, false, unexpected(at, expected).left)
    const refused = [`'${escaped(found, "'")}'`]
    const left = { at: isPassed ? at + found.length : at, found: undefined, refused, expected: none }
    return { ok: false, consumed: false, left }
  }

/** Requires that no such character follows. `expected` names it in errors if the next parser fails as well. */
export const notBefore = (pattern: RegExp, expected: readonly string[] = none): Parser<undefined> =>
  unless(pattern, true, expected)

/** Replaces the expectation if the parser consumed no input. */
export const named =
  <T>(name: string, parser: Parser<T>): Parser<T> =>
  (text, at) => {
    const found = parser(text, at)
    if (found.consumed || (found.ok && isNothing(found.left))) return found
    return { ...found, left: { ...found.left, expected: [name] } }
  }

export const end: Parser<undefined> = named('end of input', unless(/[\s\S]/uy, false, none))

/** Caches the last result and its position, because several alternatives try this parser at one position. */
export function once<T>(parser: Parser<T>): Parser<T> {
  let last: { text: string; at: number; found: Success<T> | Failure } | undefined
  return (text, at) => {
    if (last === undefined || last.at !== at || last.text !== text) last = { text, at, found: parser(text, at) }
    return last.found
  }
}

/** Matches as many as possible. `joined`: merges the last result's remaining expectations into those after it. */
const repeated =
  <T>(parser: Parser<T>, joined: boolean): Parser<T[]> =>
  (text, at) => {
    const values: T[] = []
    let left = nothing(at)
    for (let here = at; ; ) {
      const found = parser(text, here)
      if (!found.ok) {
        if (found.consumed) return found
        return success(here, values, here > at, joined ? merged(left, found.left) : found.left)
      }
      values.push(found.value)
      here = found.at
      left = found.left
    }
  }

export const many = <T>(parser: Parser<T>): Parser<T[]> => repeated(parser, true)

/** Matches one or more items with separators between them. */
export const list = <T>(parser: Parser<T>, separator: Parser<unknown>): Parser<T[]> =>
  chain(parser, first => map(repeated(after(separator, parser), false), rest => [first, ...rest]))

/** A text with quotes, as in PostgREST's errors. */
function escaped(text: string, quote: '"' | "'"): string {
  const short: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\\': '\\\\', [quote]: `\\${quote}` }
  return [...text]
    .map(one => {
      const code = one.codePointAt(0) ?? 0
      return short[one] ?? (code >= 32 && code < 127 ? one : `\\${code}`)
    })
    .join('')
}

function alternatives(list: readonly string[]): string {
  const each = [...new Set(list)]
  return each.length < 2 ? each.join('') : `${each.slice(0, -1).join(', ')} or ${each.at(-1)}`
}

const character = (text: string, at: number): string =>
  at < text.length ? `"${escaped(String.fromCodePoint(text.codePointAt(at) ?? 0), '"')}"` : 'end of input'

function described(text: string, { found, refused, expected }: Expectation): string {
  const what = refused.length > 0 ? alternatives(refused) : character(text, found ?? text.length)
  const wanted = expected.length === 0 ? '' : `expecting ${alternatives(expected)}`
  return [found === undefined && refused.length === 0 ? '' : `unexpected ${what}`, wanted]
    .filter(part => part !== '')
    .join(' ')
}

/** An error of too deep nesting, at any position. */
class TooMuch extends Error {
  readonly at: number

  constructor(at: number, expecting: string) {
    super(expecting)
    this.at = at
  }
}

/** A recursive parser with a depth limit. */
export const nested =
  <T>(depth: number, maximum: number, of: string, make: () => Parser<T>): Parser<T> =>
  (text, at) => {
    if (depth > maximum) throw new TooMuch(at, `at most ${maximum} nested ${of}`)
    return make()(text, at)
  }

/** A parser that accepts at most this many items during its lifetime. */
export function atMost<T>(maximum: number, of: string, parser: Parser<T>): Parser<T> {
  let count = 0
  return (text, at) => {
    if (++count > maximum) throw new TooMuch(at, `at most ${maximum} ${of}`)
    return parser(text, at)
  }
}

/**
 * Parses a text. If the text does not match, throws RST100 with `what`, the text and the position. Ignores text after
 * the match.
 */
export function parse<T>(what: string, text: string, parser: Parser<T>, shown = text): T {
  const refuse = (at: number, details: string) => unparsable(what, shown, [...text.slice(0, at)].length + 1, details)
  try {
    const found = parser(text, 0)
    if (found.ok) return found.value
    throw refuse(found.left.at, described(text, found.left))
  } catch (error) {
    if (error instanceof TooMuch) throw refuse(error.at, `expecting ${error.message}`)
    throw error
  }
}
