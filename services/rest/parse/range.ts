/** Row ranges: the Range header, `limit` and `offset`, and their intersection. */
import { limitNegative, rangeReversed } from '../errors/catalogue.ts'
import type { Range } from './types.ts'

export const unlimited: Range = { offset: 0, limit: undefined }
const nothing: Range = { offset: 0, limit: 0 }

/** The maximum of Postgres's bigint, and the next smaller number in JavaScript. */
const bound = 2n ** 63n
const lastBelow = 2 ** 63 - 1024

/**
 * Parses a count. A count that Postgres accepts must not be rounded to a count that Postgres refuses. No relation has
 * as many rows.
 */
const rounded = (count: bigint): number => (count < bound ? Math.min(Number(count), lastBelow) : Number(count))

/** Parses a count of digits with surrounding spaces. */
export function countOf(digits: string): number {
  const count = Number(digits)
  return Number.isSafeInteger(count) ? count : rounded(BigInt(digits.trim()))
}

/** A sum without rounding errors. */
function sum(...counts: readonly number[]): number {
  return counts.every(Number.isSafeInteger)
    ? counts.reduce((one, other) => one + other, 0)
    : rounded(counts.map(BigInt).reduce((one, other) => one + other, 0n))
}

/**
 * `Range: 0-9` or `Range: 10-`. Other values are ignored. If a range ends before its start, its limit is 0 or negative.
 */
export function parseRangeHeader(header: string | undefined): Range {
  const found = /^(?:items=)?([0-9]{1,100})-([0-9]{0,100})$/.exec(header?.trim() ?? '')
  if (found === null) return unlimited
  const [, first = '', last = ''] = found
  return { offset: countOf(first), limit: last === '' ? undefined : rounded(BigInt(last) - BigInt(first) + 1n) }
}

/** The rows that both ranges contain. */
export function intersection(one: Range, other: Range): Range {
  const offset = Math.max(one.offset, other.offset)
  const limits = [one, other].flatMap(range =>
    range.limit === undefined ? [] : [sum(range.limit, range.offset, -offset)],
  )
  return { offset, limit: limits.length === 0 ? undefined : Math.max(0, Math.min(...limits)) }
}

/** The range of `limit` and `offset`. It is empty if it ends before the first row. */
export function requestedRange(limit: number | undefined, offset = 0): Range {
  return limit !== undefined && offset + limit === 0 ? nothing : { offset, limit }
}

/**
 * The part of the header's range that is within the query string's `limit` and `offset`. Refuses an empty range, unless
 * the request explicitly requests no rows.
 */
export function rowsOf(header: Range, limit: number | undefined, offset: number | undefined): Range {
  const requested = requestedRange(limit, offset)
  if (requested === nothing) return requested
  if (header.limit !== undefined && header.limit <= 0) throw rangeReversed()
  const rows = intersection(requested, header)
  if (rows.limit === 0) throw limitNegative()
  return rows
}

/** Limits a range to a maximum of rows. */
export function capped({ offset, limit }: Range, maximum: number | undefined): Range {
  if (maximum === undefined) return { offset, limit }
  return { offset, limit: limit === undefined ? maximum : Math.min(limit, maximum) }
}
