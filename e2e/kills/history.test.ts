/** Which copies count as the state of one instant, and which rows count as lost. */
import { describe, expect, test } from 'vitest'
import {
  acknowledge,
  beginPeriod,
  type History,
  isOfWindow,
  missingOf,
  newHistory,
  notUndone,
  pointOf,
} from './history.ts'

/** Steps 1 to 6 are attempted. The fourth was never acknowledged. */
function historyOf(acknowledged: number[], attempted = 6): History {
  const history = newHistory()
  for (const n of acknowledged) acknowledge(history, n)
  history.attempted = attempted
  return history
}
const written = () => historyOf([1, 2, 3, 5, 6])
const point = (acknowledged: number, attempted: number, period = 0) => ({ period, acknowledged, attempted })
const set = (...numbers: number[]) => new Set(numbers)

test.each<[string, Set<number>, boolean]>([
  ['all rows acknowledged before the request', set(1, 2), true],
  ['one more row, acknowledged during the copy', set(1, 2, 3), true],
  ['a row that was never acknowledged', set(1, 2, 3, 4, 5), true],
  ['the unacknowledged row omitted', set(1, 2, 3, 5), true],
  ['too few rows', set(1), false],
  ['a missing row in the middle', set(1, 3), false],
  ['a row written after the copy', set(1, 2, 3, 4, 5, 6), false],
])('a copy with %s', (_, present, isRight) => {
  expect(isOfWindow(written(), present, point(2, 2), point(4, 5))).toBe(isRight)
})

describe('a restore', () => {
  /** A restore from a copy with the steps 1 to 3, after which 7 and 8 were written. */
  const restored = () => {
    const history = written()
    beginPeriod(history, [1, 2, 3])
    for (const n of [7, 8]) acknowledge(history, n)
    history.attempted = 8
    return history
  }

  test('the rows that it undid do not count as missing; all other rows do', () => {
    expect(missingOf(restored(), set(1, 2, 3, 7, 8))).toEqual([])
    expect(missingOf(restored(), set(1, 3, 7))).toEqual([2, 8])
  })

  test('a copy is from before or after the restore, never a mixture', () => {
    const history = restored()
    const [from, to] = [point(4, 5), pointOf(history)]
    expect(isOfWindow(history, set(1, 2, 3, 5), from, to)).toBe(true)
    expect(isOfWindow(history, set(1, 2, 3), from, to)).toBe(true)
    expect(isOfWindow(history, set(1, 2, 3, 7, 8), from, to)).toBe(true)
    expect(isOfWindow(history, set(1, 2, 3, 5, 7), from, to)).toBe(false)
    expect(isOfWindow(history, set(1, 2, 7), from, to)).toBe(false)
  })

  test('that keeps rows written after its backup counts as a fault', () => {
    const [backup, requested] = [point(3, 3), point(5, 6)]
    expect(notUndone(written(), set(1, 2, 3), backup, requested)).toEqual([])
    expect(notUndone(written(), set(1, 2, 3, 5, 6), backup, requested)).toEqual([5, 6])
  })
})
