import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasBackslashKey } from './backslash-keys.ts'

const hasBackslash = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(value).some(([key, inner]) => (!Array.isArray(value) && key.includes('\\')) || hasBackslash(inner))

test('finds a key with a backslash in any position, and ignores a backslash in a value', () => {
  const key = fc.oneof(fc.constantFrom('a', '\\', 'x\\', '"', '\n', ':', '\\":'), fc.string({ maxLength: 4 }))
  const value = fc.letrec(tie => ({
    value: fc.oneof(
      { depthSize: 'small' },
      key,
      fc.integer(),
      fc.array(tie('value')),
      fc.dictionary(key, tie('value')),
    ),
  })).value
  fc.assert(
    fc.property(value, fc.boolean(), fc.boolean(), (given, pretty, spelt) => {
      const text = JSON.stringify(given, null, pretty ? 2 : undefined)
      expect(hasBackslashKey(spelt ? text.replaceAll('\\\\', '\\u005C') : text)).toBe(hasBackslash(given))
    }),
    { numRuns: 3_000 },
  )
})

test('scans a long text once', () => {
  const began = performance.now()
  for (const text of [
    `"${'\\\\'.repeat(500_000)}"`,
    `[${'"\\\\",'.repeat(200_000)}1]`,
    `${'"'.repeat(1_000_000)}\\\\`,
    '"\\\\'.repeat(300_000),
  ])
    hasBackslashKey(text)
  expect(performance.now() - began).toBeLessThan(2_000)
})
