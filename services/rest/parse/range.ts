/** Which rows: the Range header, `limit` and `offset`, and what they come to together. */
import { limitNegative, rangeReversed } from '../errors/catalogue.ts'
import type { Range } from './types.ts'

export const unlimited: Range = { offset: 0, limit: undefined }
const nothing: Range = { offset: 0, limit: 0 }

/** The end of Postgres's bigint, and the last number before it that JavaScript has. */
const bound = 2n ** 63n
const lastBelow = 2 ** 63 - 1024

/** A count as a number. One that Postgres accepts is not rounded to one that it refuses: no relation has as many rows. */
const rounded = (count: bigint): number => (count < bound ? Math.min(Number(count), lastBelow) : Number(count))

/** The count that digits mean, with spaces around them. */
export function countOf(digits: string): number {
  const count = Number(digits)
  return Number.isSafeInteger(count) ? count : rounded(BigInt(digits.trim()))
}

/** A sum without an error of rounding. */
function sum(...counts: readonly number[]): number {
  return counts.every(Number.isSafeInteger)
    ? counts.reduce((one, other) => one + other, 0)
    : rounded(counts.map(BigInt).reduce((one, other) => one + other, 0n))
}

/** `Range: 0-9` or `Range: 10-`; anything else asks for nothing. The limit of a range whose end is before its beginning is not above 0. */
export function parseRangeHeader(header: string | undefined): Range {
  const found = /^(?:items=)?([0-9]{1,100})-([0-9]{0,100})$/.exec(header?.trim() ?? '')
  if (found === null) return unlimited
  const [, first = '', last = ''] = found
  return { offset: countOf(first), limit: last === '' ? undefined : rounded(BigInt(last) - BigInt(first) + 1n) }
}

/** The rows that both ask for. */
export function intersection(one: Range, other: Range): Range {
  const offset = Math.max(one.offset, other.offset)
  const limits = [one, other].flatMap(range =>
    range.limit === undefined ? [] : [sum(range.limit, range.offset, -offset)],
  )
  return { offset, limit: limits.length === 0 ? undefined : Math.max(0, Math.min(...limits)) }
}

/** What `limit` and `offset` ask for: whatever ends before the first row asks for none. */
export function askedFor(limit: number | undefined, offset = 0): Range {
  return limit !== undefined && offset + limit === 0 ? nothing : { offset, limit }
}

/** What `limit` and `offset` of the query string leave of the header's range. A range without rows is refused, but for one that asks for none. */
export function rowsOf(header: Range, limit: number | undefined, offset: number | undefined): Range {
  const asked = askedFor(limit, offset)
  if (asked === nothing) return asked
  if (header.limit !== undefined && header.limit <= 0) throw rangeReversed()
  const rows = intersection(asked, header)
  if (rows.limit === 0) throw limitNegative()
  return rows
}

/** With a maximum of rows. */
export function capped({ offset, limit }: Range, maximum: number | undefined): Range {
  if (maximum === undefined) return { offset, limit }
  return { offset, limit: limit === undefined ? maximum : Math.min(limit, maximum) }
}
