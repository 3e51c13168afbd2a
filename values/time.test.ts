import fc from 'fast-check'
import { expect, test } from 'vitest'
import { microTime, preciseTime, timestamp } from './time.ts'

test('times are written as Kubernetes reads them', () => {
  const ms = Date.UTC(2026, 0, 31, 12, 0, 5, 678)
  expect(timestamp(ms)).toBe('2026-01-31T12:00:05Z')
  expect(microTime(ms)).toBe('2026-01-31T12:00:05.678000Z')
  expect(preciseTime(ms)).toBe('2026-01-31T12:00:05.678Z')
})

test('a time is read back to its precision', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Date.UTC(2200, 0) }), ms => {
      expect(Date.parse(timestamp(ms))).toBe(Math.floor(ms / 1000) * 1000)
      expect(Date.parse(microTime(ms))).toBe(ms)
      expect(Date.parse(preciseTime(ms))).toBe(ms)
    }),
  )
})
