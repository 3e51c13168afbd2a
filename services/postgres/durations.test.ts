import { expect, test } from 'vitest'
import { Durations } from './durations.ts'

test('a statement is short after a fast run, until it has been slow for long', () => {
  const durations = new Durations()
  expect(durations.ofShort('a')).toBeUndefined()
  durations.record('a', 3, 100)
  expect(durations.ofShort('a')).toBeUndefined()
  durations.record('a', 0.1, 100)
  expect(durations.ofShort('a')).toBe(0.1)
  durations.record('a', 5, 100)
  expect(durations.ofShort('a')).toBeCloseTo(0.1245)
  for (let count = 0; count < 20; count++) durations.record('a', 5, 100)
  expect(durations.ofShort('a')).toBeUndefined()
})

test('a statement with a large result or a long text is not short', () => {
  const durations = new Durations()
  durations.record('a', 0.1, 100)
  durations.record('a', 0.1, 100_000)
  expect(durations.ofShort('a')).toBeUndefined()
  const long = 'x'.repeat(4_001)
  durations.record(long, 0.1, 100)
  expect(durations.ofShort(long)).toBeUndefined()
})

test('a forgotten statement is not short until it has run again', () => {
  const durations = new Durations()
  durations.forget('a')
  durations.record('a', 0.1, 100)
  durations.forget('a')
  durations.forget('a')
  expect(durations.ofShort('a')).toBeUndefined()
  durations.record('a', 0.2, 100)
  expect(durations.ofShort('a')).toBe(0.2)
})
