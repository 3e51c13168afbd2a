import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalQuantity, parseQuantity, quantityToBytes, quantityToNumber, sizeInBytes } from './quantity.ts'

describe('quantities', () => {
  test.each([
    ['0', 0],
    ['2', 2],
    ['1.5', 1.5],
    ['500m', 0.5],
    ['1k', 1000],
    ['10Gi', 10 * 2 ** 30],
    ['0.5Mi', 2 ** 19],
    ['3T', 3e12],
  ])('%s is %d', (text, value) => {
    expect(quantityToNumber(text)).toBe(value)
  })

  test('are rounded up to whole bytes', () => {
    expect(quantityToBytes('1500m')).toBe(2)
    expect(quantityToBytes('0.3Ki')).toBe(308)
  })

  test.each(['', '1gi', '-1', '1e3', '.5', '1 Gi', 'Gi', '1Ei'])('%j is invalid', text => {
    expect(() => quantityToNumber(text)).toThrow(RangeError)
  })
})

test.each([
  ['1073741824', 2 ** 30],
  ['10Gi', 10 * 2 ** 30],
  ['1Pi', 2 ** 50],
  ['2E', 2e18],
  ['1.5e3', 1500],
  ['1E3', 1000],
  ['.5k', 500],
  ['1500m', 2],
  ['-1', undefined],
  ['1e999', undefined],
  ['many', undefined],
  ['', undefined],
  [undefined, undefined],
])('a cluster may write %s', (text, bytes) => {
  expect(sizeInBytes(text)).toBe(bytes)
})

test('two forms of one value are equal', () => {
  expect(parseQuantity('1Gi')).toBe(parseQuantity('1024Mi'))
  expect(parseQuantity('1500m')).toBeCloseTo(1.5)
  expect(parseQuantity('2e3')).toBe(parseQuantity('2k'))
  expect(parseQuantity('-2')).toBe(-2)
  for (const none of ['', 'Gi', '1 Gi', '1gi', 'one', undefined]) expect(parseQuantity(none)).toBeUndefined()
})

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

test('the canonical form has the same value, and is its own canonical form', () => {
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
