/** What is remembered of a statement's answers. */
import { expect, test } from 'vitest'
import { AnswerSizes } from './answer-sizes.ts'

test('a guess holds until an answer has shown otherwise, and what lies between changes nothing', () => {
  const sizes = new AnswerSizes()
  expect([sizes.isLarge('a', true), sizes.isLarge('a', false)]).toEqual([true, false])
  sizes.learn('a', 1_000_000)
  sizes.learn('a', 100_000)
  expect([sizes.isLarge('a', false), sizes.isLarge('b', false)]).toEqual([true, false])
  sizes.learn('a', 10)
  sizes.learn('a', 100_000)
  expect(sizes.isLarge('a', true)).toBe(false)
})

test('of a statement that is very long nothing is remembered', () => {
  const sizes = new AnswerSizes()
  const text = 'x'.repeat(10_000)
  sizes.learn(text, 1_000_000)
  expect(sizes.isLarge(text, false)).toBe(false)
})
