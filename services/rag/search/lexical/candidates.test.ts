import fc from 'fast-check'
import { expect, test } from 'vitest'
import { weightOf } from './bm25.ts'
import { chooseClauses } from './candidates.ts'

const total = 1_000_000
const term = (lexeme: string, rows: number) => ({ lexeme, rows, weight: weightOf(rows, total) })
const budget = { rows: 600, microseconds: 2_000 }

test('uses rare terms alone, more frequent terms in pairs, and the most frequent terms not at all', () => {
  const terms = [term('the', 900_000), term('boundary', 700), term('wing', 40), term('layer', 900), term('flutter', 12)]
  expect(chooseClauses(terms, total, budget)).toEqual([['flutter'], ['wing'], ['boundary', 'layer']])
})

test('combines frequent terms until they match few rows', () => {
  const terms = [term('a', 100_000), term('b', 50_000), term('c', 80_000), term('d', 300_000)]
  expect(chooseClauses(terms, total, budget)).toEqual([['b', 'c', 'a']])
  expect(chooseClauses([term('a', 100_000)], total, budget)).toEqual([['a']])
})

test('omits terms that no row has', () => {
  expect(chooseClauses([term('nothing', 0)], total, budget)).toEqual([])
})

test('searches a table with few rows by every term', () => {
  const terms = [1, 20, 90].map(rows => ({ lexeme: String(rows), rows, weight: weightOf(rows, 200) }))
  expect(chooseClauses(terms, 200, budget)).toEqual([['1'], ['20'], ['90']])
})

test('keeps the terms of single clauses within the row budget, for any frequencies', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: total }), { maxLength: 30 }), counts => {
      const terms = counts.map((rows, index) => term(`t${index}`, rows))
      const rows = new Map(terms.map(({ lexeme, rows }) => [lexeme, rows]))
      const clauses = chooseClauses(terms, total, budget)
      const single = clauses.filter(({ length }) => length === 1).flat()
      const sum = single.reduce((before, lexeme) => before + (rows.get(lexeme) ?? 0), 0)
      expect(clauses.length > 0).toBe(counts.length > 0)
      expect(sum <= budget.rows || single.length === 1).toBe(true)
    }),
  )
})
