import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseExactly } from './exact-json.ts'

/** Writes every character as an escape, or only characters that must be escaped. */
const escaped = (text: string): string =>
  text.replaceAll(/[^"\\{}[\],:\s]/g, character =>
    /[a-z0-9.+-]/i.test(character)
      ? character
      : character
          .split('')
          .map(unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
          .join(''),
  )

test('reads the written value, however keys are escaped and whatever was parsed before', () => {
  const key = fc.oneof(
    fc.constantFrom('a', 'b', '\\', 'x\\', 'x\n', 'é', '__proto__', '1', '"'),
    fc.string({ maxLength: 4, unit: 'binary' }),
  )
  const value = fc.letrec(tie => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string(),
      fc.integer(),
      fc.constantFrom(null, true, false, 0.5, -1e30),
      fc.array(tie('value')),
      fc.dictionary(key, tie('value')),
    ),
  })).value
  fc.assert(
    fc.property(value, fc.boolean(), fc.boolean(), (original, pretty, spelt) => {
      const text = JSON.stringify(original, null, pretty ? 2 : undefined)
      expect(JSON.stringify(parseExactly(spelt ? escaped(text) : text))).toBe(JSON.stringify(original))
    }),
    { numRuns: 3_000 },
  )
})

test.each(['{"a":1,}', '"\\x"', '{"\\":1}', '[1,,2]', '', '{"a"}', '"\\', '{"a":"\\n"} 1'])('%s is not JSON', text => {
  expect(() => parseExactly(text)).toThrow(SyntaxError)
})

test('the last value of a duplicate key is used', () => {
  expect(parseExactly('{"a":1,"\\u0061":2,"b":"\\n"}')).toEqual({ a: 2, b: '\n' })
})

test('numbers that a double cannot represent stay exact', () => {
  expect(JSON.stringify(parseExactly('{"\\u0061":[12345678901234567890,1.0]}'))).toBe('{"a":[12345678901234567890,1]}')
})
