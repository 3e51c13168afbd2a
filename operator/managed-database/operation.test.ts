/** The deadline of a requested rotation. */
import { expect, test } from 'vitest'
import { desiredHash, rotationAnnotations } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Given, reconciledDatabase } from '../testing/reconciled-database.ts'
import { requestedRotations } from './operation.ts'

const { now, observedOf } = reconciledDatabase()
const requesting: Given = { metadata: { annotations: { [rotationAnnotations.app]: 'now' } } }
const { spec } = observedOf().database
const operation = {
  ...{ taskId: 't', name: 'rotate-password-managed' as const, startedAt: timestamp(now) },
  ...{ hash: desiredHash({ ...spec, rotations: { app: 'now' } }), deadlineAt: timestamp(now + 30_000) },
}
const of = (given: Given, at = now) => requestedRotations(observedOf(given).database, at)

test('a rotation is pending until it is done, and fails at the deadline of its operation', () => {
  expect(of({})).toEqual({ requested: {}, isGivenUp: false })
  const requested = { app: expect.stringMatching(/^[0-9a-f]{16}$/) }
  expect(of(requesting)).toEqual({ requested, isGivenUp: false })
  const given = { ...requesting, status: { operation } }
  expect(of(given, now + 29_999)).toEqual({ requested, isGivenUp: false })
  expect(of(given, now + 30_000)).toEqual({ requested, isGivenUp: true })
  const other = { ...requesting, status: { operation: { ...operation, hash: 'older' } } }
  expect(of(other, now + 30_000).isGivenUp).toBe(false)
})
