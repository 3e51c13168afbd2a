/** Parses the conditions of plans that an index can support, and ignores all other conditions. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bare, conjuncts, joinedBy, servedBy, sortedBy } from './conditions.ts'

const served = (filter: string) => servedBy(filter, 'o').map(({ use, expression }) => `${use} ${expression}`)

describe('a filter', () => {
  test.each([
    ['(o.customer_id = 42)', ['equality customer_id']],
    ['((o.a = 1) AND (o.b > 2))', ['equality a', 'range b']],
    ["((o.status)::text = 'open'::text)", ['equality status']],
    ["(o.id = ANY ('{1,2}'::integer[]))", ['equality id']],
    ["(lower((o.email)::text) = 'x'::text)", ['equality lower(email)']],
    ["(o.at >= '2025-01-01 00:00:00+00'::timestamp with time zone)", ['range at']],
    ['(42 = o.x)', ['equality x']],
    ['(o."Odd ""column""" = 1)', ['equality "Odd ""column"""']],
    ['(o."user" = CURRENT_USER)', ['equality "user"']],
    ["(o.name ~~ 'Mill%'::text)", ['range name text_pattern_ops']],
    ["(o.name ~~ '%mill%'::text)", ['pattern name gin_trgm_ops']],
    ["(o.note = 'it''s (AND) = ANY'::text)", ['equality note']],
    ['(o.customer_id = $1)', ['equality customer_id']],
    ['(o.x = c.y)', ['equality x']],
    ['(o.a = o.b)', []],
    ['(c.x = 1)', []],
    ['((o.a = 1) OR (o.b = 2))', []],
    ['(o.a <> 1)', []],
    ['((o.a + 1) = 2)', []],
    ['(NOT (hashed SubPlan 1))', []],
    ['o.is_open', []],
  ])('%s serves %o', (filter, expected) => expect(served(filter)).toEqual(expected))

  test('of any content is parsed without an error', () => {
    const text = fc
      .array(fc.constantFrom('(', ')', "'", '"', ' AND ', ' = ', 'o.', 'a', '::text', 'lower(', '$1', '{', '[', '\\'))
      .map(parts => parts.join(''))
    fc.assert(
      fc.property(text, filter => {
        for (const { column } of servedBy(filter, 'o')) expect(filter).toContain(column)
        joinedBy(filter)
        sortedBy(filter, 'o')
        expect(conjuncts(filter).join('').length).toBeLessThanOrEqual(filter.length)
      }),
    )
  })

  test('`bare` removes only the outermost brackets', () => {
    expect(['((a))', '(a) = (b)', "(')')", '(a = (b))'].map(bare)).toEqual(['a', '(a) = (b)', "')'", 'a = (b)'])
  })
})

test('a join names the columns that it compares', () => {
  expect(joinedBy('((o.customer_id = c.id) AND (o.total > c.most))')).toEqual([
    { alias: 'o', column: 'customer_id', written: 'customer_id', wrapper: undefined },
    { alias: 'c', column: 'id', written: 'id', wrapper: undefined },
  ])
  expect(joinedBy('(o.a = o.b)')).toEqual([])
})

test('a sort key names its column and its direction', () => {
  expect(sortedBy('o.at DESC NULLS LAST', 'o')).toEqual({ column: 'at', expression: 'at DESC NULLS LAST' })
  expect(sortedBy('(lower(o.name))', 'o')).toBeUndefined()
  expect(sortedBy('c.at', 'o')).toBeUndefined()
})
