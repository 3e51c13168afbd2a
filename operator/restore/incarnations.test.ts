/** Whose a volume is, of a database that is restored more than once. */
import { describe, expect, test } from 'vitest'
import type { Restore } from '../../crds/index.ts'
import { database, restore } from '../testing/observed-restore.ts'
import { freeIncarnation, leftBehind } from './incarnations.ts'

type Status = NonNullable<Restore['status']>

const at = '2026-11-22T12:00:00Z'
const from = (incarnation: number) => ({ incarnation, claim: `db-${incarnation}-data`, uid: `u${incarnation}` })
const failed: Status = { phase: 'failed', incarnation: 2, previous: from(1), finishedAt: at }
const done: Status = { ...failed, phase: 'completed', switchedAt: at }
const open: Status = { phase: 'running', incarnation: 2, previous: from(1) }
const onward: Status = { ...done, incarnation: 3, previous: from(2) }

describe('what a restore leaves behind', () => {
  test.each<[string, Status | undefined, serving: number, others: Status[], expected: number | undefined]>([
    ['is nothing while it goes on', open, 1, [], undefined],
    ['is nothing before it began', undefined, 1, [], undefined],
    ['is the old volume from the exchange on, also before it says so', open, 2, [], 1],
    ['is the old volume once it is done', done, 2, [], 1],
    ['also once there was another', done, 3, [onward], 1],
    ['is its own volume where it failed', failed, 1, [], 2],
    [
      'whatever came of others',
      failed,
      3,
      [
        { ...open, incarnation: 3 },
        { ...failed, incarnation: 4 },
      ],
      2,
    ],
    ['whoever failed with the same number', failed, 1, [failed], 2],
    ['is no volume that serves', failed, 2, [], undefined],
    ['none that another makes', failed, 1, [open], undefined],
    ['none that another has put in place', failed, 2, [done], undefined],
    ['none that another has put in place, and one more keeps', failed, 3, [done, onward], undefined],
    ['none that another keeps, alone', failed, 3, [onward], undefined],
  ])('%s', (_, status, incarnation, others, expected) => {
    const statuses = others.map(other => restore(other))
    expect(leftBehind(restore(status), database({ incarnation }), statuses)).toBe(expected)
  })
  test('is its own volume where the database is gone', () => {
    expect(leftBehind(restore(failed), undefined, [])).toBe(2)
  })
})

test.each<[string, number[], (Status | undefined)[], number]>([
  ['1 for the first', [], [], 1],
  ['beyond every claim', [1, 4, 2], [], 5],
  ['beyond every restore, also one that has failed and left nothing', [1], [failed, { ...failed, incarnation: 6 }], 7],
  ['not moved by one that waits', [1], [undefined], 2],
])('the next number is %s', (_, ofClaims, statuses, expected) => {
  expect(
    freeIncarnation(
      ofClaims,
      statuses.map(status => restore(status)),
    ),
  ).toBe(expected)
})
