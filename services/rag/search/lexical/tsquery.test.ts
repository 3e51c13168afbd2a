import { expect, test } from 'vitest'
import { allOf, anyClause, anyOf } from './tsquery.ts'

test('lexemes are quoted, quotes and backslashes doubled', () => {
  expect(anyOf(["o'clock", 'a\\b', 'x&!y'])).toBe("'o''clock'|'a\\\\b'|'x&!y'")
  expect(allOf(['a', 'b'])).toBe("'a'&'b'")
})

test('pairs with the same first lexeme are one part', () => {
  expect(anyClause([['r'], ['a', 'b'], ['a', 'c'], ['x', 'y', 'z']])).toBe("('r')|('x'&'y'&'z')|('a'&('b'|'c'))")
})
