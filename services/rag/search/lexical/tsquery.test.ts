import { expect, test } from 'vitest'
import { allOf, anyClause, anyOf } from './tsquery.ts'

test('quotes lexemes, and doubles quotes and backslashes', () => {
  expect(anyOf(["o'clock", 'a\\b', 'x&!y'])).toBe("'o''clock'|'a\\\\b'|'x&!y'")
  expect(allOf(['a', 'b'])).toBe("'a'&'b'")
})

test('combines pairs with the same first lexeme', () => {
  expect(anyClause([['r'], ['a', 'b'], ['a', 'c'], ['x', 'y', 'z']])).toBe("('r')|('x'&'y'&'z')|('a'&('b'|'c'))")
})
