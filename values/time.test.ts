import fc from 'fast-check'
import { expect, test } from 'vitest'
import { durationText, microTime, preciseTime, timestamp } from './time.ts'

test('times are written as Kubernetes reads them', () => {
  const ms = Date.UTC(2026, 0, 31, 12, 0, 5, 678)
  expect(timestamp(ms)).toBe('2026-01-31T12:00:05Z')
  expect(microTime(ms)).toBe('2026-01-31T12:00:05.678000Z')
  expect(preciseTime(ms)).toBe('2026-01-31T12:00:05.678Z')
})

test('a time is parsed with its precision', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Date.UTC(2200, 0) }), ms => {
      expect(Date.parse(timestamp(ms))).toBe(Math.floor(ms / 1000) * 1000)
      expect(Date.parse(microTime(ms))).toBe(ms)
      expect(Date.parse(preciseTime(ms))).toBe(ms)
    }),
  )
})

test.each([
  [-1, '0s'],
  [499, '0s'],
  [59_499, '59s'],
  [59_500, '1m0s'],
  [130_000, '2m10s'],
  [3_599_400, '59m59s'],
  [11_100_000, '3h5m'],
])('%i ms are %s', (ms, text) => {
  expect(durationText(1_000, 1_000 + ms)).toBe(text)
})
