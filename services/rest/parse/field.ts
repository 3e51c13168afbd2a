/** Parsers for names, JSON paths and casts. select, filters, order and columns share them. */
import {
  after,
  ahead,
  always,
  any,
  attempt,
  before,
  chain,
  choice,
  end,
  list,
  many,
  map,
  named,
  nested,
  notBefore,
  once,
  optional,
  type Parser,
  some,
  token,
} from './parser.ts'
import type { Field, JsonStep } from './types.ts'

/** The maximum nesting of a request: parentheses of select and logic, and steps of a JSON path. */
export const maximumDepth = 64

const spaces = any(/[ \t]*/y)
/** The token with surrounding spaces. */
export const spaced = <T>(parser: Parser<T>): Parser<T> => after(spaces, before(parser, spaces))
export const comma = spaced(token(','))
export const dot = named('delimiter (.)', token('.'))

/** The content of double quotes. A backslash escapes the next character. */
export const quoted: Parser<string> = map(
  after(token('"'), before(any(/(?:[^"\\]|\\[\s\S])*/uy, ['"\\\\"']), token('"'))),
  inside => inside.replace(/\\([\s\S])/gu, '$1'),
)

/** Parts with dashes between them. No dash starts an arrow. */
const dashed = (part: Parser<string>): Parser<string> =>
  map(list(part, attempt(before(token('-'), notBefore(/>/y, ['">"'])))), parts => parts.join('-'))

const expectedLetters = ['letter', 'digit']
const asciiLetters = some(/[A-Za-z0-9_ $]+/y, expectedLetters)
const allLetters = some(/[\p{L}\p{N}\p{M}_ $]+/uy, expectedLetters)
/** Uses Unicode tables only if necessary: without them, the pattern is ten times as fast. */
const letters: Parser<string> = (text, at) => {
  const found = asciiLetters(text, at)
  return text.charCodeAt(found.ok ? found.at : at) > 127 ? allLetters(text, at) : found
}
/** Letters and digits of any script, `_`, `$` and spaces. */
export const identifier: Parser<string> = map(letters, text => text.trim())
/** The same with a `[]` suffix for an array. */
const typeName: Parser<string> = map(some(/[\p{L}\p{N}\p{M}_ $]+(?:\[\] *)*/uy, ['letter', 'digit']), text =>
  text.trim(),
)

/** The parser tries the same name as an alias, a relation and a column, so it caches the result. */
export const name: Parser<string> = once(named('field name (* or [a..z0..9_$])', choice(quoted, dashed(identifier))))

const digits = some(/[0-9]+/y, ['digit'])
const afterIndex = choice(...['->', '::', '.', ','].map(one => attempt(ahead(token(one)))), attempt(end))
const index: Parser<string> = chain(choice(token('-'), always('')), sign =>
  map(before(digits, afterIndex), text => sign + text),
)
const key: Parser<string> = named(
  'any non reserved character different from: .,>()',
  choice(quoted, dashed(map(some(/[^(\-:.,>)]+/uy), text => text.trim()))),
)

/** A number above Postgres's maximum index can only be a key. */
const operand: Parser<string | number> = choice<string | number>(
  attempt(map(index, text => (Math.abs(Number(text)) < 2 ** 31 ? Number(text) : text))),
  attempt(key),
)
const arrow: Parser<JsonStep['arrow']> = choice<JsonStep['arrow']>(
  attempt(map(token('->>'), () => '->>')),
  attempt(map(token('->'), () => '->')),
)
const step: Parser<JsonStep> = chain(arrow, found =>
  map(operand, operandValue => ({ arrow: found, key: operandValue })),
)

export const jsonPath: Parser<JsonStep[]> = chain(many(step), path =>
  nested(path.length, maximumDepth, 'steps into a JSON value', () => always(path)),
)

export const field: Parser<Field> = spaced(chain(name, column => map(jsonPath, path => ({ name: column, path }))))

/** `::type`. */
export const cast: Parser<string | undefined> = optional(after(token('::'), typeName))

export const names: Parser<string[]> = list(name, comma)
