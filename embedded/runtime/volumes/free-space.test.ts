import { expect, test } from 'vitest'
import { leavesFreeSpace } from './free-space.ts'

const mebibyte = 1024 * 1024

test.each([
  [64, 0, true],
  [63, 0, false],
  [164, 100, true],
  [164, 101, false],
  [10, 100, false],
])('%i MiB are free, %i more are written', (free, more, isEnough) => {
  expect(leavesFreeSpace({ bavail: free * 256, bsize: 4096 }, more * mebibyte)).toBe(isEnough)
})
