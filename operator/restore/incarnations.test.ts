/** To which restore a volume belongs, if a database is restored more than once. */
import { describe, expect, test } from 'vitest'
import type { Restore } from '../../crds/index.ts'
import { database, restore } from '../testing/observed-restore.ts'
import { freeIncarnation, remainingIncarnation } from './incarnations.ts'

type Status = NonNullable<Restore['status']>

const at = '2026-11-22T12:00:00Z'
const from = (incarnation: number) => ({ incarnation, claim: `db-${incarnation}-data`, uid: `u${incarnation}` })
const failed: Status = { phase: 'failed', incarnation: 2, previous: from(1), finishedAt: at }
const done: Status = { ...failed, phase: 'completed', switchedAt: at }
const open: Status = { phase: 'running', incarnation: 2, previous: from(1) }
const onward: Status = { ...done, incarnation: 3, previous: from(2) }

describe('the remaining volume of a restore', () => {
  test.each<[string, Status | undefined, serving: number, others: Status[], expected: number | undefined]>([
    ['does not exist while the restore runs', open, 1, [], undefined],
    ['does not exist before the restore begins', undefined, 1, [], undefined],
    ['is the old volume after the switch, also before the restore records it', open, 2, [], 1],
    ['is the old volume after the restore', done, 2, [], 1],
    ['is the same after another restore', done, 3, [onward], 1],
    ['is the new volume if the restore failed', failed, 1, [], 2],
    [
      'does not depend on the results of other restores',
      failed,
      3,
      [
        { ...open, incarnation: 3 },
        { ...failed, incarnation: 4 },
      ],
      2,
    ],
    ['is the same if another restore failed with the same number', failed, 1, [failed], 2],
    ['is not the serving volume', failed, 2, [], undefined],
    ['is not a volume that another restore creates', failed, 1, [open], undefined],
    ['is not a volume that another restore has switched to', failed, 2, [done], undefined],
    ['is not a volume that one restore switched to and a later one replaced', failed, 3, [done, onward], undefined],
    ['is not a volume that a later restore replaced', failed, 3, [onward], undefined],
  ])('%s', (_, status, incarnation, others, expected) => {
    const statuses = others.map(other => restore(other))
    expect(remainingIncarnation(restore(status), database({ incarnation }), statuses)).toBe(expected)
  })
  test('is its own volume if the database is deleted', () => {
    expect(remainingIncarnation(restore(failed), undefined, [])).toBe(2)
  })
})

test.each<[string, number[], (Status | undefined)[], number]>([
  ['1 for the first', [], [], 1],
  ['above every claim', [1, 4, 2], [], 5],
  ['above every restore, also a failed one without objects', [1], [failed, { ...failed, incarnation: 6 }], 7],
  ['not affected by a restore that waits', [1], [undefined], 2],
])('the next number is %s', (_, ofClaims, statuses, expected) => {
  expect(
    freeIncarnation(
      ofClaims,
      statuses.map(status => restore(status)),
    ),
  ).toBe(expected)
})
