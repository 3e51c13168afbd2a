import { expect, test } from 'vitest'
import { parseExpiry } from './expiry.ts'

test.each([
  ['12h', 43_200_000],
  ['30d', 2_592_000_000],
  ['2w', 1_209_600_000],
  ['1y', 31_536_000_000],
  ['never', null],
  ['0d', undefined],
  ['-1d', undefined],
  ['30', undefined],
  ['30m', undefined],
  ['1.5d', undefined],
  ['101y', undefined],
  ['9999999y', undefined],
  ['', undefined],
  ['1d ', undefined],
  ['Never', undefined],
])('%j is %j', (text, ms) => {
  expect(parseExpiry(text)).toBe(ms)
})
