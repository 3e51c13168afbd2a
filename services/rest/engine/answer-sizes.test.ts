/** The recorded result sizes of statements. */
import { expect, test } from 'vitest'
import { AnswerSizes } from './answer-sizes.ts'

test('a guess is kept until a result contradicts it, and medium sizes change nothing', () => {
  const sizes = new AnswerSizes()
  expect([sizes.isLarge('a', true), sizes.isLarge('a', false)]).toEqual([true, false])
  sizes.record('a', 1_000_000)
  sizes.record('a', 100_000)
  expect([sizes.isLarge('a', false), sizes.isLarge('b', false)]).toEqual([true, false])
  sizes.record('a', 10)
  sizes.record('a', 100_000)
  expect(sizes.isLarge('a', true)).toBe(false)
})

test('very long statements are not recorded', () => {
  const sizes = new AnswerSizes()
  const text = 'x'.repeat(10_000)
  sizes.record(text, 1_000_000)
  expect(sizes.isLarge(text, false)).toBe(false)
})
