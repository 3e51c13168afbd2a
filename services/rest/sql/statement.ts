/**
 * Builds a statement: its values, and its text of constant words, quoted identifiers and `$n`. This is the last of
 * three stages (parse, plan, SQL). Client input reaches the text only through `quoteIdentifier`, `typeName` and
 * `limitSql`.
 */

import { type Bytes, type Parameter, piecesOf } from '../../../wire/messages.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { tooManyValues } from '../errors/catalogue.ts'

export type Value = Parameter

export type Statement = { readonly text: string; readonly values: readonly Value[] }

/** Postgres accepts 65,535 (the protocol has a 16-bit count). */
const maximumValues = 30_000

/**
 * The row with an alias, as one value. The alias alone could also be a column: Postgres prefers a column with that
 * name, even of an outer query (manual, section 8.16.5).
 */
export const rowOf = (alias: string): string => `(${quoteIdentifier(alias)}.*)`

/** Types whose name has several words, or differs in the catalog. */
const sqlTypes = new Map(
  [
    'bigint',
    'bit varying',
    'boolean',
    'char',
    'character',
    'character varying',
    'dec',
    'decimal',
    'double precision',
    'float',
    'int',
    'integer',
    'real',
    'smallint',
    'time with time zone',
    'time without time zone',
    'timestamp with time zone',
    'timestamp without time zone',
  ].map(name => [name, name]),
)

/** A client's type name in a cast: a standard SQL type or an identifier. `[]` can follow. */
export function typeName(name: string): string {
  let element = name.trimEnd()
  // No regular expression: a pattern that is anchored only at the end restarts at each space.
  while (element.endsWith('[]')) element = element.slice(0, -2).trimEnd()
  const base = element.trimStart().toLowerCase().replace(/ +/g, ' ')
  // Postgres refuses an empty type name.
  if (base === '') return ''
  return `${sqlTypes.get(base) ?? quoteIdentifier(base)}${element === name.trimEnd() ? '' : '[]'}`
}

/** An array in Postgres's text form (manual, section 8.15.2). */
export const arrayLiteral = (values: readonly string[]): string =>
  `{${values.map(value => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`

const quote = 0x22
const backslash = 0x5c

/** A part of an array's value. It uses no regular expression, which is 100 times slower if many bytes need escaping. */
function escapedPart(part: Buffer): Buffer {
  let more = 0
  for (let at = 0; at < part.length; at++) if (part[at] === quote || part[at] === backslash) more++
  if (more === 0) return part
  const escaped = Buffer.allocUnsafe(part.length + more)
  let end = 0
  for (let at = 0; at < part.length; at++) {
    const byte = part[at] as number // at is within the part
    if (byte === quote || byte === backslash) escaped[end++] = backslash
    escaped[end++] = byte
  }
  return escaped
}

/** Like `arrayLiteral`, for values that may be large. */
export function arrayBytes(values: readonly (string | Bytes)[]): readonly Buffer[] {
  const elements = values.flatMap((value, index) => [
    Buffer.from(index === 0 ? '"' : ',"'),
    ...piecesOf(typeof value === 'string' ? Buffer.from(value) : value).map(escapedPart),
    Buffer.from('"'),
  ])
  return [Buffer.from('{'), ...elements, Buffer.from('}')]
}

/** A parameter with the count's digits. Postgres reports an error if the count is too large. */
export const digitsOf = (writer: StatementWriter, count: number): string => writer.value(BigInt(count).toString())

/**
 * Limits up to this are part of the text. Clients use few different limits, and Postgres would plan again each time for
 * a limit in a parameter.
 */
const largestKnownLimit = 1_000

/** The SQL of a limit: only digits of a number reach the text. */
export const limitSql = (writer: StatementWriter, limit: number): string =>
  Number.isInteger(limit) && limit >= 0 && limit <= largestKnownLimit ? limit.toFixed(0) : digitsOf(writer, limit)

export class StatementWriter {
  readonly values: Value[] = []
  readonly #shared = new Map<string, string>()

  /** A parameter for a value; Postgres infers its type. */
  value(value: Value): string {
    if (this.values.push(value) > maximumValues) throw tooManyValues(maximumValues)
    return `$${this.values.length}`
  }

  /** One parameter for all uses of a text with one type, for expressions that must be identical. */
  sharedValue(value: string, type: 'text' | 'int4' = 'text'): string {
    const key = `${type} ${value}`
    const known = this.#shared.get(key)
    if (known !== undefined) return known
    const parameter = type === 'text' ? this.value(value) : `${this.value(value)}::${type}`
    this.#shared.set(key, parameter)
    return parameter
  }
}
