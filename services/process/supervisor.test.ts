import { describe, expect, test } from 'vitest'
import { poolShares, restartBackoff } from './supervisor.ts'

test('the restart delay grows if a worker ends at once, and is 0 for a worker that was stable', () => {
  const backoffs = [0]
  for (let time = 0; time < 7; time++) backoffs.push(restartBackoff(1_200, backoffs.at(-1) ?? 0))
  expect(backoffs).toEqual([0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000])
  expect(restartBackoff(10_000, 32_000)).toBe(0)
})

describe('the shares of a pool', () => {
  test('add up to the pool, and differ by at most one', () => {
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
