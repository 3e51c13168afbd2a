import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { refusal } from '../testing/parsing.ts'
import { capped, countOf, intersection, parseRangeHeader, requestedRange, rowsOf, unlimited } from './range.ts'
import type { Range } from './types.ts'

describe('Range', () => {
  test.each<[string | undefined, Range]>([
    [undefined, unlimited],
    ['', unlimited],
    ['0-9', { offset: 0, limit: 10 }],
    ['5-5', { offset: 5, limit: 1 }],
    ['10-', { offset: 10, limit: undefined }],
    ['items=1-2', { offset: 1, limit: 2 }],
    [' 1-2 ', { offset: 1, limit: 2 }],
    ['-5', unlimited],
    ['bytes=0-5', unlimited],
    ['1-2,4-5', unlimited],
    ['1.5-2', unlimited],
    ['1-2x', unlimited],
    ['0-9999999999999999', { offset: 0, limit: 10_000_000_000_000_000 }],
    ['5-4', { offset: 5, limit: 0 }],
    // 2^63 - 1, the largest that Postgres accepts, and 2^63.
    ['1-9223372036854775807', { offset: 1, limit: 2 ** 63 - 1024 }],
    ['0-9223372036854775807', { offset: 0, limit: 2 ** 63 }],
    ['9223372036854775808-9223372036854775810', { offset: 2 ** 63, limit: 3 }],
  ])('%j', (header, range) => {
    expect(parseRangeHeader(header)).toEqual(range)
  })

  test('with an end before its start gets RST103', () => {
    expect(rowsOf(parseRangeHeader('5-4'), 0, undefined)).toEqual({ offset: 0, limit: 0 })
    expect(refusal(() => rowsOf(parseRangeHeader('5-4'), 2, undefined))).toMatchObject({
      code: 'RST103',
      status: 416,
      details: 'The lower boundary must be lower than or equal to the upper boundary in the Range header.',
    })
  })
})

test('limit and offset of the query string', () => {
  const pageTwo = { offset: 10, limit: 10 }
  expect(rowsOf(unlimited, undefined, undefined)).toEqual(unlimited)
  expect(rowsOf(unlimited, 0, undefined)).toEqual({ offset: 0, limit: 0 })
  expect(rowsOf(unlimited, 2, -1)).toEqual({ offset: 0, limit: 1 })
  expect(rowsOf(unlimited, -1, 1)).toEqual({ offset: 0, limit: 0 })
  expect(rowsOf(unlimited, 1, 1e20)).toEqual({ offset: 1e20, limit: 1 })
  expect(rowsOf(pageTwo, 15, undefined)).toEqual({ offset: 10, limit: 5 })
  for (const [header, limit, offset] of [
    [unlimited, -1, 0],
    [unlimited, 0, 5],
    [pageTwo, 5, 0],
    [pageTwo, undefined, 20],
  ] as const) {
    expect(refusal(() => rowsOf(header, limit, offset))).toMatchObject({ code: 'RST103', status: 416 })
  }
  // Postgres reports it for embeddings.
  expect(requestedRange(-1, -2)).toEqual({ offset: -2, limit: -1 })
})

test('a count that Postgres accepts is not rounded to a count that Postgres refuses', () => {
  expect(countOf(' 9223372036854775807 ')).toBe(2 ** 63 - 1024)
  expect([countOf('9223372036854775808'), countOf('-2'), countOf('9007199254740993')]).toEqual([2 ** 63, -2, 2 ** 53])
  expect(rowsOf({ offset: 2 ** 63, limit: undefined }, 2 ** 63, 10)).toEqual({ offset: 2 ** 63, limit: 10 })
})

const range = fc.record({ offset: fc.nat(20), limit: fc.option(fc.nat(20), { nil: undefined }) })
const rows = ({ offset, limit }: Range) => {
  const all = Array.from({ length: 60 }, (_, index) => index)
  return all.slice(offset, limit === undefined ? undefined : offset + limit)
}

test('the intersection of ranges has the rows that both contain', () => {
  fc.assert(
    fc.property(range, range, (one, other) => {
      const both = new Set(rows(other))
      expect(rows(intersection(one, other))).toEqual(rows(one).filter(row => both.has(row)))
    }),
  )
})

test('a maximum keeps the first rows', () => {
  fc.assert(
    fc.property(range, fc.option(fc.nat(20), { nil: undefined }), (one, maximum) => {
      expect(rows(capped(one, maximum))).toEqual(rows(one).slice(0, maximum))
    }),
  )
})
