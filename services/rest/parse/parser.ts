/**
 * Parsers that are put together from smaller ones. Where a text does not fit, they know how far it did and what could be there instead. They choose, go back and gather
 * expectations by the rules of Parsec (Leijen and Meijer, 2001), with which PostgREST is written: the conformance cases and differential.test.ts compare the words and the
 * column of each error. Neither sends tabs or line breaks, which count as one character here.
 */
import { unparsable } from '../errors/catalogue.ts'

/** What is known of why no more was read: at `found` stands a character that must not be there, `refused` is one that was read and should not have been. */
type Expectation = {
  readonly at: number
  readonly found: number | undefined
  readonly refused: readonly string[]
  readonly expected: readonly string[]
}

/** `consumed`: whether it went past its beginning. A choice tries its other ways only where it did not. */
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

/** Of two places the one that is further on counts; of one place, both. */
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

/** Fails without a word. */
export const never: Parser<never> = (_, at) => ({ ok: false, consumed: false, left: nothing(at) })

/**
 * One of several words, found at once; where none is there, what stands in its place says why not. The pattern is sticky, and matches a word and nothing else.
 */
export const found =
  <T extends string>(pattern: RegExp, words: Parser<T>): Parser<T> =>
  (text, at) => {
    pattern.lastIndex = at
    const word = pattern.exec(text)?.[0]
    // What it matches is one of the words.
    return word === undefined ? words(text, at) : success(at + word.length, word as T, true)
  }

/** Exactly this text. Where only its first characters are there, it has gone past them. */
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

/** One character or more that a sticky pattern matches; it goes on as long as it can, and would have taken what is expected. */
export const some =
  (pattern: RegExp, expected: readonly string[] = []): Parser<string> =>
  (text, at) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0] ?? ''
    if (found === '') return unexpected(at, expected)
    return success(at + found.length, found, true, unexpected(at + found.length, expected).left)
  }

/** The same, or none. */
export const any =
  (pattern: RegExp, expected: readonly string[] = []): Parser<string> =>
  (text, at) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0] ?? ''
    return success(at + found.length, found, found !== '', unexpected(at + found.length, expected).left)
  }

/** One after the other; what the second is depends on the first. */
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

/** The first of two that follow each other. */
export const before = <T>(first: Parser<T>, second: Parser<unknown>): Parser<T> =>
  chain(first, value => map(second, () => value))
/** The second of two that follow each other. */
export const after = <T>(first: Parser<unknown>, second: Parser<T>): Parser<T> => chain(first, () => second)

/** The first that fits; one that failed after it had gone on ends the choice. */
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

/** Where it fails, as if it had not gone on. */
export const attempt =
  <T>(parser: Parser<T>): Parser<T> =>
  (text, at) => {
    const found = parser(text, at)
    return found.ok ? found : { ...found, consumed: false }
  }

export const optional = <T>(parser: Parser<T>): Parser<T | undefined> =>
  choice<T | undefined>(parser, always(undefined))

/** Whether it fits, without taking it. */
export const ahead =
  (parser: Parser<unknown>): Parser<undefined> =>
  (text, at) => {
    const found = parser(text, at)
    return found.ok ? success(at, undefined, false) : found
  }

/** Refuses a character that a sticky pattern matches. `isPassed`: where it says so, it is behind that character. */
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

/** That no such character follows; `expected` is what it is called all the same, where what follows does not fit either. */
export const notBefore = (pattern: RegExp, expected: readonly string[] = none): Parser<undefined> =>
  unless(pattern, true, expected)

/** Says what is expected in other words, where it has not gone on. */
export const named =
  <T>(name: string, parser: Parser<T>): Parser<T> =>
  (text, at) => {
    const found = parser(text, at)
    if (found.consumed || (found.ok && isNothing(found.left))) return found
    return { ...found, left: { ...found.left, expected: [name] } }
  }

export const end: Parser<undefined> = named('end of input', unless(/[\s\S]/uy, false, none))

/** Remembers what it last found, and where: for what is tried several times in one place. */
export function once<T>(parser: Parser<T>): Parser<T> {
  let last: { text: string; at: number; found: Success<T> | Failure } | undefined
  return (text, at) => {
    if (last === undefined || last.at !== at || last.text !== text) last = { text, at, found: parser(text, at) }
    return last.found
  }
}

/** As many as there are. `joined`: what is left of the last one found joins what is left where there is no more. */
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

/** One or more, separated. */
export const list = <T>(parser: Parser<T>, separator: Parser<unknown>): Parser<T[]> =>
  chain(parser, first => map(repeated(after(separator, parser), false), rest => [first, ...rest]))

/** A text as PostgREST shows it in what it says. */
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

/** Too deep, wherever it stands. */
class TooMuch extends Error {
  readonly at: number

  constructor(at: number, expecting: string) {
    super(expecting)
    this.at = at
  }
}

/** A parser that is made anew at each depth, down to a limit. */
export const nested =
  <T>(depth: number, maximum: number, of: string, make: () => Parser<T>): Parser<T> =>
  (text, at) => {
    if (depth > maximum) throw new TooMuch(at, `at most ${maximum} nested ${of}`)
    return make()(text, at)
  }

/** A parser that finds no more than so many of one thing while it lives. */
export function atMost<T>(maximum: number, of: string, parser: Parser<T>): Parser<T> {
  let count = 0
  return (text, at) => {
    if (++count > maximum) throw new TooMuch(at, `at most ${maximum} ${of}`)
    return parser(text, at)
  }
}

/** What a parser makes of a text; what it does not fit is RST100, naming `what`, the text, and the place. What follows that is not read. */
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
