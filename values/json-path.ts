/**
 * Paths of RFC 9535 for `roleClaimKey`, as PostgREST 16 accepts them: `$.role`, `$['https://example.com/roles'][0]`,
 * `$.groups[?@ == 'web']`. It supports the complete language except its functions (`length`, `match` and so on).
 * Functions are refused, because a regular expression in a path could be too slow on text from tokens.
 */
import { isRecord } from './record.ts'

type Selector =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'slice'; readonly from?: number; readonly to?: number; readonly step: number }
  | { readonly kind: 'filter'; readonly test: Test }

type Segment = { readonly descends: boolean; readonly selectors: readonly Selector[] }
type Query = { readonly root: boolean; readonly segments: readonly Segment[] }
type Operand = { readonly literal: string | number | boolean | null } | { readonly query: Query }
type Test =
  | { readonly kind: 'and' | 'or'; readonly members: readonly Test[] }
  | { readonly kind: 'not'; readonly member: Test }
  | { readonly kind: 'exists'; readonly query: Query }
  | { readonly kind: 'compare'; readonly operator: string; readonly left: Operand; readonly right: Operand }

export type JsonPath = { readonly segments: readonly Segment[] }

/** Its message states what is expected at a character, counted from 1. */
export class JsonPathError extends Error {}

const deepest = 32
const blanks = /[ \t\r\n]*/y
const member = /[\p{L}_\u{80}-\u{10FFFF}][\p{L}\p{N}_\u{80}-\u{10FFFF}]*/uy
const integer = /0|-?[1-9][0-9]{0,14}/y
const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const comparison = /==|!=|<=|>=|<|>/y
const word = /true|false|null/y
const quoted = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/suy

/** @throws JsonPathError */
export function parseJsonPath(text: string): JsonPath {
  return new Reader(text).path()
}

class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  path(): JsonPath {
    this.#expect('$')
    const segments = this.#segments()
    if (this.#at < this.#text.length) this.#fail('".", "[" or the end')
    return { segments }
  }

  #segments(): Segment[] {
    const segments: Segment[] = []
    for (;;) {
      const start = this.#at
      this.#take(blanks)
      if (this.#skip('..')) {
        segments.push({ descends: true, selectors: this.#skip('[') ? this.#bracketed() : [this.#shorthand()] })
      } else if (this.#skip('.')) segments.push({ descends: false, selectors: [this.#shorthand()] })
      else if (this.#skip('[')) segments.push({ descends: false, selectors: this.#bracketed() })
      else {
        this.#at = start
        return segments
      }
    }
  }

  #shorthand(): Selector {
    if (this.#skip('*')) return { kind: 'wildcard' }
    return { kind: 'name', name: this.#take(member) ?? this.#fail('a name of letters, digits and "_", or "*"') }
  }

  #bracketed(): Selector[] {
    const selectors: Selector[] = []
    do {
      this.#take(blanks)
      selectors.push(this.#selector())
      this.#take(blanks)
    } while (this.#skip(','))
    this.#expect(']')
    return selectors
  }

  #selector(): Selector {
    if (this.#skip('*')) return { kind: 'wildcard' }
    if (this.#skip('?')) return { kind: 'filter', test: this.#nested(() => this.#or()) }
    const name = this.#take(quoted)
    if (name !== undefined) return { kind: 'name', name: this.#unquoted(name) }
    const from = this.#integer()
    this.#take(blanks)
    if (!this.#skip(':')) {
      return from === undefined ? this.#fail('a quoted name, an index, "*" or "?"') : { kind: 'index', index: from }
    }
    this.#take(blanks)
    const to = this.#integer()
    this.#take(blanks)
    const hasStep = this.#skip(':')
    if (hasStep) this.#take(blanks)
    const step = hasStep ? this.#integer() : undefined
    return {
      kind: 'slice',
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
      step: step ?? 1,
    }
  }

  #or(): Test {
    return this.#joined('or', '||', () => this.#joined('and', '&&', () => this.#basic()))
  }

  #joined(kind: 'and' | 'or', token: string, next: () => Test): Test {
    const first = next()
    const members = [first]
    for (this.#take(blanks); this.#skip(token); this.#take(blanks)) members.push(next())
    return members.length === 1 ? first : { kind, members }
  }

  #basic(): Test {
    this.#take(blanks)
    if (this.#text[this.#at] === '!' && this.#text[this.#at + 1] !== '=') {
      this.#at++
      return { kind: 'not', member: this.#nested(() => this.#basic()) }
    }
    if (this.#skip('(')) {
      const test = this.#nested(() => this.#or())
      this.#take(blanks)
      this.#expect(')')
      return test
    }
    const left = this.#operand()
    this.#take(blanks)
    const operator = this.#take(comparison)
    if (operator === undefined) {
      return 'query' in left ? { kind: 'exists', query: left.query } : this.#fail('a comparison (==, !=, <, <=, >, >=)')
    }
    this.#take(blanks)
    const right = this.#operand()
    for (const side of [left, right]) if ('query' in side && !isSingular(side.query)) this.#fail('a path to one value')
    return { kind: 'compare', operator, left, right }
  }

  #operand(): Operand {
    for (const start of ['@', '$']) {
      if (this.#skip(start)) return { query: { root: start === '$', segments: this.#nested(() => this.#segments()) } }
    }
    const text = this.#take(quoted)
    if (text !== undefined) return { literal: this.#unquoted(text) }
    const value = this.#take(word) ?? this.#take(number)
    return { literal: JSON.parse(value ?? this.#fail('"@", "$", a quoted text, a number, true, false or null')) }
  }

  #nested<T>(read: () => T): T {
    if (++this.#depth > deepest) this.#fail(`at most ${deepest} nested tests`)
    const result = read()
    this.#depth--
    return result
  }

  #integer(): number | undefined {
    const digits = this.#take(integer)
    return digits === undefined ? undefined : Number(digits)
  }

  #unquoted(text: string): string {
    const inner = text.slice(1, -1)
    // JSON escapes are valid in both kinds of quotes; a single quote is escaped only in single quotes.
    const json = text.startsWith("'") ? inner.replace(/\\'|"/g, found => (found === '"' ? '\\"' : "'")) : inner
    try {
      return JSON.parse(`"${json}"`)
    } catch {
      return this.#fail('a valid JSON escape before this character')
    }
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #skip(token: string): boolean {
    const isThere = this.#text.startsWith(token, this.#at)
    if (isThere) this.#at += token.length
    return isThere
  }

  #expect(token: string): void {
    if (!this.#skip(token)) this.#fail(`"${token}"`)
  }

  #fail(expected: string): never {
    throw new JsonPathError(`expected ${expected} at character ${this.#at + 1} of ${JSON.stringify(this.#text)}`)
  }
}

const isSingular = ({ segments }: Query): boolean =>
  segments.every(
    ({ descends, selectors: [first, ...more] }) =>
      !descends && more.length === 0 && (first?.kind === 'name' || first?.kind === 'index'),
  )

/** The first value at the path; undefined if there is none. */
export const followJsonPath = ({ segments }: JsonPath, root: unknown): unknown => found(segments, root, root)[0]

const found = (segments: readonly Segment[], start: unknown, root: unknown): unknown[] =>
  segments.reduce<unknown[]>(
    (values, { descends, selectors }) =>
      values
        .flatMap(value => (descends ? withDescendants(value) : [value]))
        .flatMap(value => selectors.flatMap(selector => selected(selector, value, root))),
    [start],
  )

const children = (value: unknown): unknown[] =>
  Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []

const withDescendants = (value: unknown): unknown[] => [value, ...children(value).flatMap(withDescendants)]

function selected(selector: Selector, value: unknown, root: unknown): unknown[] {
  switch (selector.kind) {
    case 'name':
      return isRecord(value) && Object.hasOwn(value, selector.name) ? [value[selector.name]] : []
    case 'index': {
      const at = Array.isArray(value) && selector.index < 0 ? value.length + selector.index : selector.index
      return Array.isArray(value) && at >= 0 && at < value.length ? [value[at]] : []
    }
    case 'wildcard':
      return children(value)
    case 'slice':
      return Array.isArray(value) ? sliced(value, selector) : []
    case 'filter':
      return children(value).filter(child => matches(selector.test, child, root))
  }
}

function sliced(list: readonly unknown[], { from, to, step }: Extract<Selector, { kind: 'slice' }>): unknown[] {
  const { length } = list
  const bound = (at: number, least: number, most: number) => Math.min(Math.max(at < 0 ? length + at : at, least), most)
  if (step > 0) {
    const [start, end] = [bound(from ?? 0, 0, length), bound(to ?? length, 0, length)]
    return list.slice(start, end).filter((_, index) => index % step === 0)
  }
  if (step === 0) return []
  const first = from === undefined ? length - 1 : bound(from, -1, length - 1)
  const last = to === undefined ? -1 : bound(to, -1, length - 1)
  return list
    .slice(last + 1, first + 1)
    .toReversed()
    .filter((_, index) => index % -step === 0)
}

function matches(test: Test, value: unknown, root: unknown): boolean {
  switch (test.kind) {
    case 'and':
      return test.members.every(one => matches(one, value, root))
    case 'or':
      return test.members.some(one => matches(one, value, root))
    case 'not':
      return !matches(test.member, value, root)
    case 'exists':
      return found(test.query.segments, test.query.root ? root : value, root).length > 0
    case 'compare': {
      const of = (side: Operand): unknown[] =>
        'query' in side ? found(side.query.segments, side.query.root ? root : value, root) : [side.literal]
      return compared(test.operator, of(test.left), of(test.right))
    }
  }
}

/** Each side has one value or none. Only two numbers or two texts can be ordered. */
function compared(operator: string, [left]: readonly unknown[], [right]: readonly unknown[]): boolean {
  const isEqual = equal(left, right)
  const isLess = (one: unknown, other: unknown) =>
    (typeof one === 'number' && typeof other === 'number' && one < other) ||
    (typeof one === 'string' && typeof other === 'string' && one < other)
  switch (operator) {
    case '==':
      return isEqual
    case '!=':
      return !isEqual
    case '<':
      return isLess(left, right)
    case '<=':
      return isEqual || isLess(left, right)
    case '>':
      return isLess(right, left)
    default:
      return isEqual || isLess(right, left)
  }
}

function equal(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((value, index) => equal(value, other[index]))
  if (isRecord(one) && isRecord(other) && !Array.isArray(one) && !Array.isArray(other)) {
    const names = Object.keys(one)
    return (
      names.length === Object.keys(other).length &&
      names.every(name => Object.hasOwn(other, name) && equal(one[name], other[name]))
    )
  }
  return one === other
}
