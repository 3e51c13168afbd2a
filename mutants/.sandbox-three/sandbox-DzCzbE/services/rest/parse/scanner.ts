/** Reads a text from left to right and knows where it stands, so that a failure names the place. */
// @ts-nocheck

import { unparsable } from '../errors/catalogue.ts'

/** Where parsing stopped, and what could have stood there. */
class Failure extends Error {
  readonly at: number
  readonly expecting: string

  constructor(at: number, expecting: string) {
    super(expecting)
    this.at = at
    this.expecting = expecting
  }
}

export class Scanner {
  readonly text: string
  at = 0

  constructor(text: string) {
    this.text = text
  }

  get done(): boolean {
    return this.at >= this.text.length
  }

  /** Whether this stands here; nothing is consumed. */
  sees(token: string): boolean {
    return this.text.startsWith(token, this.at)
  }

  /** Consumes this, where it stands here. */
  skips(token: string): boolean {
    if (!this.sees(token)) return false
    this.at += token.length
    return true
  }

  /** Consumes what a sticky pattern matches here. */
  takes(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)
    if (found === null || found[0] === '') return undefined
    this.at += found[0].length
    return found[0]
  }

  expects(token: string, expecting = `"${token}"`): void {
    if (!this.skips(token)) this.fail(expecting)
  }

  expectsEnd(expecting = 'end of input'): void {
    if (!this.done) this.fail(expecting)
  }

  fail(expecting: string, at = this.at): never {
    throw new Failure(at, expecting)
  }
}

/** Parses the whole of a text; what does not fit is RST100, naming `what`, the text and the column (in characters, from 1). */
export function parseAll<T>(what: string, text: string, parser: (scanner: Scanner) => T, shown = text): T {
  const scanner = new Scanner(text)
  try {
    const result = parser(scanner)
    scanner.expectsEnd()
    return result
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const character = String.fromCodePoint(text.codePointAt(error.at) ?? 0)
    const unexpected = error.at >= text.length ? 'end of input' : `"${character}"`
    const column = [...text.slice(0, error.at)].length + 1
    throw unparsable(what, shown, column, `unexpected ${unexpected} expecting ${error.expecting}`)
  }
}
