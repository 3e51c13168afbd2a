/**
 * Splits a text into its statements, as psql does. Postgres accepts only one statement per message. So after a wrong
 * split, Postgres reports an error, and never runs two statements as one.
 */
import { badRequest } from '../errors.ts'

export type Statement = {
  readonly text: string
  /** The statement's position in the whole text, in characters from 0. */
  readonly start: number
  /** The first word in upper case. If the statement does not begin with a word, its first character. */
  readonly first: string
}

/** The kinds of characters. A `sign` is a token of its own, except a quote or a dollar that begins a longer token. */
const kinds = { sign: 0, space: 1, digit: 2, letter: 3 } as const
const kindOfAscii = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (/[ \t\n\r\f\v]/.test(character)) return kinds.space
  if (/[0-9]/.test(character)) return kinds.digit
  return /[A-Za-z_]/.test(character) ? kinds.letter : kinds.sign
})

/** Returns the kind of the character at `at`. After the end of the text, returns `sign`. */
function kindAt(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code < 0x80 ? (kindOfAscii[code] ?? kinds.sign) : code >= 0x80 ? kinds.letter : kinds.sign
}

/** Returns the end of a word, in which a dollar counts as a letter. */
function endOfWord(text: string, at: number): number {
  let end = at + 1
  while (kindAt(text, end) >= kinds.digit || text[end] === '$') end++
  return end
}

/** Returns the end of a number. Of all letters, only ASCII letters continue a number. */
function endOfNumber(text: string, at: number): number {
  let end = at + 1
  while ((kindAt(text, end) >= kinds.digit && text.charCodeAt(end) < 0x80) || text[end] === '.') end++
  return end
}

const dollarQuote = /\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/y

function dollarQuoteAt(text: string, at: number): string | undefined {
  dollarQuote.lastIndex = at
  return dollarQuote.exec(text)?.[0]
}

/** Returns the end of the quoted string or name that begins at `at`. Two quotes in it mean one quote. */
function endOfQuoted(text: string, at: number, quote: string): number {
  for (let from = at + 1; ; from += 2) {
    from = text.indexOf(quote, from)
    if (from === -1) return text.length
    if (text[from + 1] !== quote) return from + 1
  }
}

/** Returns the end of E'...', in which a backslash escapes the next character. */
function endOfEscaped(text: string, at: number): number {
  for (let index = at + 2; index < text.length; index++) {
    if (text[index] === '\\' || (text[index] === "'" && text[index + 1] === "'")) index++
    else if (text[index] === "'") return index + 1
  }
  return text.length
}

/** Returns the end of a comment, which can contain other comments. */
function endOfComment(text: string, at: number): number {
  let depth = 0
  for (let index = at; index < text.length; index++) {
    const isOpening = text[index] === '/' && text[index + 1] === '*'
    if (!isOpening && !(text[index] === '*' && text[index + 1] === '/')) continue
    depth += isOpening ? 1 : -1
    index++
    if (depth === 0) return index + 1
  }
  return text.length
}

function endOfLine(text: string, at: number): number {
  let end = at
  while (end < text.length && text[end] !== '\n' && text[end] !== '\r') end++
  return end
}

/** Returns the end of the spaces and comments that begin at `at`. */
function endOfSpace(text: string, at: number): number {
  let end = at
  for (;;) {
    if (kindAt(text, end) === kinds.space) end++
    else if (text[end] === '-' && text[end + 1] === '-') end = endOfLine(text, end)
    else if (text[end] === '/' && text[end + 1] === '*') end = endOfComment(text, end)
    else return end
  }
}

/** Returns the end of the token that begins at `at`. The token is neither a space nor a comment. */
function endOfToken(text: string, at: number): number {
  const sign = text[at] ?? ''
  if (sign === "'" || sign === '"') return endOfQuoted(text, at, sign)
  if ((sign === 'e' || sign === 'E') && text[at + 1] === "'") return endOfEscaped(text, at)
  const kind = kindAt(text, at)
  if (kind === kinds.letter) return endOfWord(text, at)
  if (kind === kinds.digit) return endOfNumber(text, at)
  if (sign !== '$') return at + 1
  const quote = dollarQuoteAt(text, at)
  if (quote === undefined) return kindAt(text, at + 1) === kinds.digit ? endOfNumber(text, at + 1) : at + 1
  const close = text.indexOf(quote, at + quote.length)
  return close === -1 ? text.length : close + quote.length
}

/** Whether the statement creates a routine, whose body may be BEGIN ATOMIC ... END with semicolons. */
const createsRoutine = (words: readonly string[]): boolean =>
  /^CREATE (OR REPLACE )?(FUNCTION|PROCEDURE)\b/.test(words.join(' '))

/** How many words decide what a statement creates. */
const decidingWords = 4

/** A longer word neither begins nor ends a block. */
const longestOfBlock = 'BEGIN'.length

class Current {
  first = ''
  /** The position of the statement's first character, in UTF-16 units. */
  from = 0
  readonly #words: string[] = []
  #isRoutine = false
  #parentheses = 0
  #blocks = 0

  /** Adds a token of the text. The token is neither a space nor a comment. */
  add(text: string, at: number, end: number): void {
    const sign = text[at] ?? ''
    const isWord = kindAt(text, at) === kinds.letter && (end - at === 1 || text[at + 1] !== "'")
    if (this.first === '') {
      this.first = isWord ? text.slice(at, end).toUpperCase() : sign
      this.from = at
    }
    if (sign === '(') this.#parentheses++
    if (sign === ')') this.#parentheses = Math.max(0, this.#parentheses - 1)
    if (isWord) this.#addWord(text, at, end)
  }

  /** Copies only a few words, because a text can have half as many words as characters. */
  #addWord(text: string, at: number, end: number): void {
    if (this.#words.length < decidingWords) {
      this.#words.push(text.slice(at, end).toUpperCase())
      this.#isRoutine = createsRoutine(this.#words)
    }
    if (!this.#isRoutine || this.#parentheses > 0 || end - at > longestOfBlock) return
    const upper = text.slice(at, end).toUpperCase()
    if (upper === 'BEGIN' || (upper === 'CASE' && this.#blocks > 0)) this.#blocks++
    if (upper === 'END') this.#blocks = Math.max(0, this.#blocks - 1)
  }

  get isComplete(): boolean {
    return this.#parentheses === 0 && this.#blocks === 0
  }
}

/** Counts the characters of a part of the text. A character can have two UTF-16 units. */
function characters(text: string, from: number, to: number): number {
  let count = to - from
  for (let at = from; at < to - 1; at++)
    if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) count--
  return count
}

/**
 * Returns the statements of a text, without semicolons and without empty statements. Splitting blocks the process, so
 * the text's length and `most` are limited.
 * @throws ApiError 400 if there are more than `most` statements
 */
export function splitStatements(text: string, most = Number.POSITIVE_INFINITY): Statement[] {
  const statements: Statement[] = []
  let counted = { units: 0, characters: 0 }
  let current = new Current()
  const end = (at: number) => {
    const { first, from } = current
    if (first === '') return
    if (statements.length === most) throw badRequest(`text: must have at most ${most} statements`)
    counted = { units: from, characters: counted.characters + characters(text, counted.units, from) }
    statements.push({ text: text.slice(from, at), start: counted.characters, first })
    current = new Current()
  }
  for (let at = endOfSpace(text, 0); at < text.length; ) {
    const next = endOfToken(text, at)
    if (text[at] === ';' && current.isComplete) end(at)
    else current.add(text, at, next)
    at = endOfSpace(text, next)
  }
  end(text.length)
  return statements
}

/** The first words of the statements that a read accepts. No such statement is COPY or ends the transaction. */
const reads = new Set(['SELECT', 'VALUES', 'TABLE', 'WITH', 'SHOW', 'EXPLAIN', '('])

export const isRead = ({ first }: Pick<Statement, 'first'>): boolean => reads.has(first)
