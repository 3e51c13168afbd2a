/**
 * A statement while it is written: text that consists of our own words, quoted identifiers and `$n`, and the values for those. The last of the three stages
 * (parse, plan, SQL); nothing that a client sent gets into the text in any other way than through `quoteIdentifier`, `typeName` and `limitSql`.
 */

import { type Bytes, type Parameter, piecesOf } from '../../postgres/messages.ts'
import { quoteIdentifier } from '../../postgres/quote.ts'
import { tooManyValues } from '../errors/catalogue.ts'

export type Value = Parameter

export type Statement = { readonly text: string; readonly values: readonly Value[] }

/** Postgres takes 65,535 (protocol: a 16-bit count). */
const maximumValues = 30_000

/**
 * The row that goes by an alias, as one value. The alias alone could also be a column: Postgres prefers a column of that name, even one of an outer query
 * (manual, section 8.16.5).
 */
export const wholeRow = (alias: string): string => `(${quoteIdentifier(alias)}.*)`

/** Types that are written in several words, or whose name is not the one in the catalog. */
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

/** The type a client names for a cast: one of SQL's own, or an identifier; each may be an array. */
export function typeName(name: string): string {
  let element = name.trimEnd()
  // By hand: a pattern that is tied to the end alone starts anew at each space.
  while (element.endsWith('[]')) element = element.slice(0, -2).trimEnd()
  const base = element.trimStart().toLowerCase().replace(/ +/g, ' ')
  // No type at all is for Postgres to refuse.
  if (base === '') return ''
  return `${sqlTypes.get(base) ?? quoteIdentifier(base)}${element === name.trimEnd() ? '' : '[]'}`
}

/** An array as Postgres reads it from text (manual section 8.15.2). */
export const arrayLiteral = (values: readonly string[]): string =>
  `{${values.map(value => `"${value.replace(/["\\]/g, '\\$&')}"`).join(',')}}`

const quote = 0x22
const backslash = 0x5c

/** A part of an array's value. By hand: a pattern takes a hundred times as long where there is much to escape. */
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

/** The same of values that may be large. */
export function arrayBytes(values: readonly (string | Bytes)[]): readonly Buffer[] {
  const elements = values.flatMap((value, index) => [
    Buffer.from(index === 0 ? '"' : ',"'),
    ...piecesOf(typeof value === 'string' ? Buffer.from(value) : value).map(escapedPart),
    Buffer.from('"'),
  ])
  return [Buffer.from('{'), ...elements, Buffer.from('}')]
}

/** A count in digits, however large: Postgres says what is too large. */
export const digitsOf = (writer: StatementWriter, count: number): string => writer.value(BigInt(count).toString())

/** Up to here a limit stands in the text: there are few that clients ask for, and Postgres plans anew each time for one that it does not know. */
const largestKnownLimit = 1_000

/** What a limit is: it is a number, so that its digits are all that gets into the text. */
export const limitSql = (writer: StatementWriter, limit: number): string =>
  Number.isInteger(limit) && limit >= 0 && limit <= largestKnownLimit ? limit.toFixed(0) : digitsOf(writer, limit)

export class StatementWriter {
  readonly values: Value[] = []
  readonly #shared = new Map<string, string>()

  /** A place for a value; its type is what Postgres infers there. */
  value(value: Value): string {
    if (this.values.push(value) > maximumValues) throw tooManyValues(maximumValues)
    return `$${this.values.length}`
  }

  /** One place for all uses of a text of one type, where an expression has to be the same each time it is written. */
  sharedValue(value: string, type: 'text' | 'int4' = 'text'): string {
    const key = `${type} ${value}`
    const known = this.#shared.get(key)
    if (known !== undefined) return known
    const place = type === 'text' ? this.value(value) : `${this.value(value)}::${type}`
    this.#shared.set(key, place)
    return place
  }
}
