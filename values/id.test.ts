/** Increasing ids: within one millisecond, across counter overflow, and with a clock that is set back. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createIds, timeOfId } from './id.ts'

const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const at = Date.parse('2026-02-03T04:05:06.789Z')

describe('ids of one source', () => {
  test('contain their creation time', () => {
    const id = createIds(() => at)()
    expect(id).toMatch(version7)
    expect(timeOfId(id)).toBe(at)
    expect(timeOfId('d0e6be7d-f4c4-4f9e-9094-2adfd944e71b')).toBeUndefined()
    expect(timeOfId('no id')).toBeUndefined()
  })

  test('increase, even if a clock is set back a little, and never share the first 16 digits', () => {
    const steps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -9_000, max: 9_000 })), { maxLength: 300 })
    fc.assert(
      fc.property(steps, moves => {
        let highest = at
        let clock = at
        const next = createIds(() => clock)
        const ids = moves.map(move => {
          // The clock is never 10 seconds behind its latest time.
          clock = Math.max(highest - 9_000, clock + move)
          highest = Math.max(highest, clock)
          return next()
        })
        expect(ids.every(id => version7.test(id))).toBe(true)
        expect(ids.toSorted()).toEqual(ids)
        expect(new Set(ids.map(id => id.replaceAll('-', '').slice(0, 16))).size).toBe(ids.length)
      }),
    )
  })

  test('use the next millisecond when the counter overflows', () => {
    const next = createIds(
      () => at,
      bytes => Buffer.alloc(bytes, 0xff),
    )
    expect([next(), next()].map(timeOfId)).toEqual([at, at + 1])
    const many = createIds(() => at)
    const ids = Array.from({ length: 10_000 }, many)
    expect(ids.toSorted()).toEqual(ids)
    expect(new Set(ids).size).toBe(10_000)
  })

  test('use the corrected clock after it was far ahead', () => {
    let clock = at + 3600_000
    const next = createIds(() => clock)
    next()
    clock = at
    expect(timeOfId(next())).toBe(at)
  })
})

test('sources of two replicas have equal first 16 digits in one millisecond only by chance', () => {
  const starts = Array.from({ length: 200 }, () => createIds(() => at)().slice(15, 18))
  expect(new Set(starts).size).toBeGreaterThan(150)
})
