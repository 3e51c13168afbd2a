import { expect, test } from 'vitest'
import { Durations } from './durations.ts'

test('a statement is short once it has been quick, until it is slow for long', () => {
  const durations = new Durations()
  expect(durations.ofShort('a')).toBeUndefined()
  durations.learn('a', 3, 100)
  expect(durations.ofShort('a')).toBeUndefined()
  durations.learn('a', 0.1, 100)
  expect(durations.ofShort('a')).toBe(0.1)
  durations.learn('a', 5, 100)
  expect(durations.ofShort('a')).toBeCloseTo(0.1245)
  for (let count = 0; count < 20; count++) durations.learn('a', 5, 100)
  expect(durations.ofShort('a')).toBeUndefined()
})

test('one with a large answer, or a long text, is not', () => {
  const durations = new Durations()
  durations.learn('a', 0.1, 100)
  durations.learn('a', 0.1, 100_000)
  expect(durations.ofShort('a')).toBeUndefined()
  const long = 'x'.repeat(4_001)
  durations.learn(long, 0.1, 100)
  expect(durations.ofShort(long)).toBeUndefined()
})

test('what is forgotten is not short until it has been seen again', () => {
  const durations = new Durations()
  durations.forget('a')
  durations.learn('a', 0.1, 100)
  durations.forget('a')
  durations.forget('a')
  expect(durations.ofShort('a')).toBeUndefined()
  durations.learn('a', 0.2, 100)
  expect(durations.ofShort('a')).toBe(0.2)
})
