import { describe, expect, test } from 'vitest'
import { poolShares, restartBackoff } from './supervisor.ts'

test('a worker that ends at once is waited for longer each time, and one that was well not at all', () => {
  const backoffs = [0]
  for (let time = 0; time < 7; time++) backoffs.push(restartBackoff(1_200, backoffs.at(-1) ?? 0))
  expect(backoffs).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000])
  expect(restartBackoff(10_000, 32_000)).toBe(0)
})

describe('the shares of a pool', () => {
  test('add up to all of it, and differ by one at most', () => {
    for (const [size, workers] of [
      [5, 2],
      [10, 4],
      [3, 3],
      [100, 7],
    ] as const) {
      const shares = poolShares(size, workers)
      expect(shares.reduce((sum, share) => sum + share)).toBe(size)
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1)
    }
  })
})
