import { expect, test } from 'vitest'
import { filterSql } from './filter-condition.ts'
import { Parameters } from './parameters.ts'

const columns = new Map([['a', { name: 'pg_catalog.text', array: 'pg_catalog._text' }]])
const like = (value: string) =>
  filterSql({ conditions: [{ column: 'a', operator: 'LIKE', value }], logic: 'AND' }, columns, new Parameters())

test.each(['\\\\', 'a\\\\\\\\', '', '\\%'])('%j is a pattern', value => {
  expect(like(value)).toBe('(t."a" LIKE $1::pg_catalog.text)')
})

test.each(['\\', 'a\\\\\\'])('%j is not a pattern', value => {
  expect(() => like(value)).toThrow('filter.conditions[0].value: must not end with a backslash')
})

test('takes no longer for many backslashes than for other characters', () => {
  const value = `${'\\'.repeat(10_000)}x`
  const began = performance.now()
  for (let times = 0; times < 50; times++) like(value)
  expect(performance.now() - began).toBeLessThan(500)
})
