import fc from 'fast-check'
import { expect, test } from 'vitest'
import { firstSize, type PoolState, planSize } from './size.ts'

const GiB = 2 ** 30
const roomy: PoolState = {
  ...{ imageBytes: 16 * GiB, allocatedBytes: GiB, freeBytes: 15 * GiB, reservedBytes: 0 },
  ...{ diskFreeBytes: 100 * GiB, diskBytes: 200 * GiB },
}

test('a new pool has 16 GiB, or what the disk can store; no pool is created below 1 GiB', () => {
  expect(firstSize({ diskFreeBytes: 100 * GiB, diskBytes: 200 * GiB })).toBe(16 * GiB)
  expect(firstSize({ diskFreeBytes: 6 * GiB, diskBytes: 200 * GiB })).toBe(5 * GiB)
  expect(firstSize({ diskFreeBytes: 1.5 * GiB, diskBytes: 200 * GiB })).toBeUndefined()
})

test('a pool with free space keeps its size, and grows while the disk can store it', () => {
  expect(planSize(roomy)).toEqual({ imageBytes: 16 * GiB, reservedBytes: 0 })
  const short = { ...roomy, allocatedBytes: 12 * GiB, freeBytes: 4 * GiB }
  expect(planSize(short)).toEqual({ imageBytes: 32 * GiB, reservedBytes: 0 })
  expect(planSize({ ...short, diskFreeBytes: 8 * GiB })).toEqual({ imageBytes: 19 * GiB, reservedBytes: 0 })
  expect(planSize({ ...short, diskFreeBytes: 5 * GiB })).toEqual({ imageBytes: 16 * GiB, reservedBytes: 0 })
})

test('a large pool grows by a quarter', () => {
  const large = { ...roomy, imageBytes: 400 * GiB, allocatedBytes: 320 * GiB, freeBytes: 80 * GiB }
  expect(planSize({ ...large, diskFreeBytes: 1000 * GiB }).imageBytes).toBe(500 * GiB)
})

test('space that the disk cannot store is reserved until the disk has space again', () => {
  expect(planSize({ ...roomy, diskFreeBytes: 6 * GiB })).toEqual({ imageBytes: 16 * GiB, reservedBytes: 10 * GiB })
  const reserved = { ...roomy, freeBytes: 5 * GiB, reservedBytes: 10 * GiB }
  expect(planSize({ ...reserved, diskFreeBytes: 6 * GiB + 1e6 }).reservedBytes).toBe(10 * GiB)
  expect(planSize({ ...reserved, diskFreeBytes: 0 }).reservedBytes).toBe(15 * GiB)
  expect(planSize(reserved).reservedBytes).toBe(0)
})

test('without disk space, nothing is writable, not even blocks of deleted files in the image', () => {
  const deleted = { ...roomy, allocatedBytes: 5 * GiB, freeBytes: 15 * GiB + 4096, diskFreeBytes: 0 }
  expect(planSize(deleted).reservedBytes).toBe(15 * GiB + 4096)
})

test('writers never get more space than the disk has', () => {
  const bytes = (most: number) => fc.nat(most * 1024).map(mebibytes => mebibytes * 2 ** 20)
  const states = fc
    .record({
      free: bytes(64),
      reserved: bytes(64),
      used: bytes(64),
      disk: bytes(512).map(more => GiB + more),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    .map(({ free, reserved, used, disk, share }) => ({
      ...{ imageBytes: free + reserved + used, allocatedBytes: used, freeBytes: free, reservedBytes: reserved },
      ...{ diskBytes: disk, diskFreeBytes: Math.floor(disk * share) },
    }))
  fc.assert(
    fc.property(states, state => {
      const { imageBytes, reservedBytes } = planSize(state)
      expect(imageBytes).toBeGreaterThanOrEqual(state.imageBytes)
      const writable = imageBytes - state.allocatedBytes - reservedBytes
      const free = state.freeBytes + state.reservedBytes + imageBytes - state.imageBytes
      expect(free - reservedBytes).toBeLessThanOrEqual(state.diskFreeBytes)
      expect(writable).toBeLessThanOrEqual(state.diskFreeBytes)
    }),
  )
})
