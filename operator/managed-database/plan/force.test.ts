/** For how long the force annotation is valid. */
import { expect, test } from 'vitest'
import { annotations } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'

const { now, planOf } = reconciledDatabase()
const forced: Given = { metadata: { annotations: { [annotations.force]: 'true' } } }
const since = (ms: number): Given => ({
  ...forced,
  conditions: { DeletionForced: { status: 'True', lastTransitionTime: timestamp(now - ms) } },
})
const conditionOfForce = (given: Given) => conditionOf(planOf(given).status, 'DeletionForced')

test('a force annotation without a deletion is reported, and removed after ten minutes', () => {
  expect(conditionOfForce({})).toBeUndefined()
  expect(conditionOfForce({ metadata: { annotations: { [annotations.force]: 'false' } } })).toBeUndefined()
  const first = planOf(forced)
  expect(conditionOfForce(forced)).toMatchObject({ status: 'True', lastTransitionTime: timestamp(now) })
  expect(first.requeueAt).toBeLessThanOrEqual(now + 600_000)
  expect(planOf(since(599_000)).actions).toEqual([])
  expect(planOf(since(600_000)).actions).toEqual([{ do: 'remove-force' }])
  expect(
    conditionOfForce({ conditions: { DeletionForced: { status: 'True' } } }),
    'and the condition is absent without the annotation',
  ).toBeUndefined()
})

test('a force annotation is kept on a database that is being deleted', () => {
  const metadata = { ...forced.metadata, deletionTimestamp: timestamp(now) }
  const { actions, status } = planOf({ ...since(3600_000), metadata })
  expect(actions).not.toContainEqual({ do: 'remove-force' })
  expect(conditionOf(status, 'DeletionForced')).toBeUndefined()
})
