/** Which rows: the Range header, `limit` and `offset`, and what they come to together. */
import { limitNegative, rangeReversed } from '../errors/catalogue.ts'
import type { Range } from './types.ts'

export const unlimited: Range = { offset: 0, limit: undefined }

/** `Range: 0-9` or `Range: 10-`; anything else asks for nothing. */
export function parseRangeHeader(header: string | undefined): Range {
  const found = /^(?:items=)?([0-9]{1,15})-([0-9]{0,15})$/.exec(header?.trim() ?? '')
  if (found === null) return unlimited
  const [offset, last] = [Number(found[1]), found[2]]
  if (last === '' || last === undefined) return { offset, limit: undefined }
  if (Number(last) < offset) {
    throw rangeReversed()
  }
  return { offset, limit: Number(last) - offset + 1 }
}

/** The rows that both ask for. */
export function intersection(one: Range, other: Range): Range {
  const offset = Math.max(one.offset, other.offset)
  const ends = [one, other].flatMap(range => (range.limit === undefined ? [] : [range.offset + range.limit]))
  return { offset, limit: ends.length === 0 ? undefined : Math.max(0, Math.min(...ends) - offset) }
}

/**
 * What `limit` and `offset` of the query string leave. Of the root, which the Range header narrows, a range without rows is refused, but for a plain limit of none; of what
 * is embedded Postgres judges.
 */
export function rowsOf(header: Range | undefined, limit: number | undefined, offset: number | undefined): Range {
  if (header === undefined) return { offset: offset ?? 0, limit }
  if (limit !== undefined && limit < 0) throw limitNegative()
  // Before the first row stands nothing: an offset below zero skips nothing.
  const asked = { offset: Math.max(0, offset ?? 0), limit }
  if (limit === 0 && asked.offset === 0) return asked
  const rows = intersection(asked, header)
  if (rows.limit === 0) throw limitNegative()
  return rows
}

/** With a maximum of rows. */
export function capped({ offset, limit }: Range, maximum: number | undefined): Range {
  if (maximum === undefined) return { offset, limit }
  return { offset, limit: limit === undefined ? maximum : Math.min(limit, maximum) }
}
