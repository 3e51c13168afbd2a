import { expect, test } from 'vitest'
import { milliseconds, modeOf, parametersOf } from './statements.ts'

test('finds parameters outside of quotes and comments, and adds missing numbers', () => {
  expect(parametersOf('SELECT 1')).toEqual([])
  expect(parametersOf('SELECT $3, $1')).toEqual(['$1', '$2', '$3'])
  expect(parametersOf(`SELECT '$2', "$3", $1 -- $4\n/* $5 */ , $x$ $6 $x$, $$ $7 $$`)).toEqual(['$1'])
  expect(parametersOf(`SELECT 'it''s $2' WHERE a = $1`)).toEqual(['$1'])
  expect(parametersOf('SELECT name$3, $1')).toEqual(['$1'])
})

test('uses write mode for EXPLAIN of a statement that may change rows', () => {
  expect(['SELECT 1', ' (select $1)', '-- first\nVALUES (1)', '/* a */ TABLE t'].map(modeOf)).toEqual(
    Array(4).fill('read'),
  )
  expect(['UPDATE t SET a = $1', 'WITH a AS (DELETE FROM t) SELECT 1', 'selection'].map(modeOf)).toEqual(
    Array(3).fill('write'),
  )
})

test('formats times in a suitable unit', () => {
  expect([0.126, 5.25, 123.4, 1500, 90_000].map(milliseconds)).toEqual([
    '0.13 ms',
    '5.3 ms',
    '123 ms',
    '1.5 s',
    '1.5 min',
  ])
})
