import { expect, test } from 'vitest'
import { quoteIdentifier } from './quote.ts'

test.each([
  ['plain', '"plain"'],
  ['With "quotes" and.dots', '"With ""quotes"" and.dots"'],
  ['', '""'],
])('%s is quoted as %s', (name, quoted) => {
  expect(quoteIdentifier(name)).toBe(quoted)
})

test('a name with NUL is refused', () => {
  expect(() => quoteIdentifier('a\0b')).toThrow('NUL')
})
