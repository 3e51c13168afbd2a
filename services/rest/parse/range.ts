/** Which rows: the Range header, `limit` and `offset`, and what they come to together. */
import { limitNegative, rangeReversed } from '../errors/catalogue.ts'
import type { Range } from './types.ts'

export const unlimited: Range = { offset: 0, limit: undefined }
const nothing: Range = { offset: 0, limit: 0 }

/** `Range: 0-9` or `Range: 10-`; anything else asks for nothing. The limit of a range whose end is before its beginning is not above 0. */
export function parseRangeHeader(header: string | undefined): Range {
  const found = /^(?:items=)?([0-9]{1,100})-([0-9]{0,100})$/.exec(header?.trim() ?? '')
  if (found === null) return unlimited
  const [offset, last] = [Number(found[1]), found[2]]
  return { offset, limit: last === '' || last === undefined ? undefined : Number(last) - offset + 1 }
}

/** The rows that both ask for. */
export function intersection(one: Range, other: Range): Range {
  const offset = Math.max(one.offset, other.offset)
  const limits = [one, other].flatMap(range =>
    range.limit === undefined ? [] : [range.limit - (offset - range.offset)],
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
