/** What counts as a copy of one instant, and as lost. */
import { describe, expect, test } from 'vitest'
import { acknowledge, beginLife, isOfWindow, missingOf, newTrail, notUndone, pointOf, type Trail } from './history.ts'

/** Steps 1 to 6 are attempted; the fourth was never acknowledged. */
function trailOf(acknowledged: number[], attempted = 6): Trail {
  const trail = newTrail()
  for (const n of acknowledged) acknowledge(trail, n)
  trail.attempted = attempted
  return trail
}
const written = () => trailOf([1, 2, 3, 5, 6])
const point = (acknowledged: number, attempted: number, life = 0) => ({ life, acknowledged, attempted })
const set = (...numbers: number[]) => new Set(numbers)

test.each<[string, Set<number>, boolean]>([
  ['all that was acknowledged before the request', set(1, 2), true],
  ['one more, acknowledged while the copy was made', set(1, 2, 3), true],
  ['a step that was never acknowledged', set(1, 2, 3, 4, 5), true],
  ['that step left out', set(1, 2, 3, 5), true],
  ['too little', set(1), false],
  ['a gap', set(1, 3), false],
  ['a step of after the end', set(1, 2, 3, 4, 5, 6), false],
])('a copy with %s', (_, present, isRight) => {
  expect(isOfWindow(written(), present, point(2, 2), point(4, 5))).toBe(isRight)
})

describe('a restore', () => {
  /** Of a copy with the steps 1 to 3, after which 7 and 8 were written. */
  const restored = () => {
    const trail = written()
    beginLife(trail, [1, 2, 3])
    for (const n of [7, 8]) acknowledge(trail, n)
    trail.attempted = 8
    return trail
  }

  test('what it undid is not missing, and all else is', () => {
    expect(missingOf(restored(), set(1, 2, 3, 7, 8))).toEqual([])
    expect(missingOf(restored(), set(1, 3, 7))).toEqual([2, 8])
  })

  test('a copy is of before it or of after it, and not of both', () => {
    const trail = restored()
    const [from, to] = [point(4, 5), pointOf(trail)]
    expect(isOfWindow(trail, set(1, 2, 3, 5), from, to)).toBe(true)
    expect(isOfWindow(trail, set(1, 2, 3), from, to)).toBe(true)
    expect(isOfWindow(trail, set(1, 2, 3, 7, 8), from, to)).toBe(true)
    expect(isOfWindow(trail, set(1, 2, 3, 5, 7), from, to)).toBe(false)
    expect(isOfWindow(trail, set(1, 2, 7), from, to)).toBe(false)
  })

  test('that leaves what was written after its backup has undone nothing', () => {
    const [backup, asked] = [point(3, 3), point(5, 6)]
    expect(notUndone(written(), set(1, 2, 3), backup, asked)).toEqual([])
    expect(notUndone(written(), set(1, 2, 3, 5, 6), backup, asked)).toEqual([5, 6])
  })
})
