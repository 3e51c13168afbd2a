import { expect, test } from 'vitest'
import { withSince } from './since.ts'

const now = Date.parse('2026-01-31T12:00:05.678Z')

test('the first value has no time, the same value keeps its time, and another value gets a new one', () => {
  expect(withSince<{ limit?: number }>(undefined, { limit: 3 }, now)).toEqual({ limit: 3 })
  const before = { limit: 3, since: '2026-01-01T00:00:00.000Z' }
  expect(withSince(before, { limit: 3 }, now)).toBe(before)
  expect(withSince<{ limit?: number }>(before, {}, now)).toEqual({ since: '2026-01-31T12:00:05.678Z' })
})
