import { expect, test } from 'vitest'
import { createRateLimiter } from './rate-limit.ts'

const limiter = (keys = 10) => {
  const clock = { ms: 0 }
  return { clock, take: createRateLimiter({ perSecond: 2, burst: 3 }, keys, () => clock.ms) }
}
const taken = (take: (key: string) => boolean, key: string, times: number) =>
  Array.from({ length: times }, () => take(key)).filter(Boolean).length

test('a key may spend its burst, then what comes back', () => {
  const { clock, take } = limiter()
  expect(taken(take, 'a', 10)).toBe(3)
  clock.ms = 499
  expect(taken(take, 'a', 10)).toBe(0)
  clock.ms = 1000
  expect(taken(take, 'a', 10)).toBe(2)
  clock.ms = 60_000
  expect(taken(take, 'a', 10)).toBe(3)
})

test('keys do not spend from one another', () => {
  const { take } = limiter()
  expect(taken(take, 'a', 10)).toBe(3)
  expect(taken(take, 'b', 10)).toBe(3)
})

test('a clock set back gives nothing and takes nothing', () => {
  const { clock, take } = limiter()
  clock.ms = 10_000
  expect(taken(take, 'a', 10)).toBe(3)
  clock.ms = 0
  expect(taken(take, 'a', 10)).toBe(0)
  clock.ms = 500
  expect(taken(take, 'a', 10)).toBe(1)
})

test('only so many keys are remembered', () => {
  const { take } = limiter(2)
  expect(taken(take, 'a', 3)).toBe(3)
  expect(taken(take, 'b', 3)).toBe(3)
  expect(take('c')).toBe(true)
  expect(taken(take, 'b', 3)).toBe(0)
  expect(take('a')).toBe(true)
})
