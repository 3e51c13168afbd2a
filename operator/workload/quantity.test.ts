import fc from 'fast-check'
import { expect, test } from 'vitest'
import { quantityToNumber } from '../../values/quantity.ts'
import { canonicalQuantity } from './quantity.ts'

test.each([
  ['1000m', '1'],
  ['500m', '500m'],
  ['0.5', '500m'],
  ['2', '2'],
  ['1024Mi', '1Gi'],
  ['1.5Gi', '1536Mi'],
  ['1000M', '1G'],
  ['0', '0'],
  ['1536', '1536'],
])('%s is stored as %s', (text, stored) => {
  expect(canonicalQuantity(text)).toBe(stored)
})

test('the value stays, and the spelling is stable', () => {
  const quantities = fc
    .tuple(fc.integer({ min: 0, max: 100_000 }), fc.constantFrom('', 'm', 'k', 'M', 'G', 'Ki', 'Mi', 'Gi', 'Ti'))
    .map(([number, suffix]) => `${number}${suffix}`)
  fc.assert(
    fc.property(quantities, text => {
      const stored = canonicalQuantity(text)
      expect(quantityToNumber(stored)).toBeCloseTo(quantityToNumber(text), 9)
      expect(canonicalQuantity(stored)).toBe(stored)
    }),
  )
})
