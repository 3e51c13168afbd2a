/** When a requested rotation is given up. */
import { expect, test } from 'vitest'
import { desiredHash, rotationAnnotations } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { type Given, settledDatabase } from '../testing/settled.ts'
import { requestedRotations } from './operation.ts'

const { now, observedOf } = settledDatabase()
const asking: Given = { metadata: { annotations: { [rotationAnnotations.app]: 'now' } } }
const { spec } = observedOf().database
const operation = {
  ...{ taskId: 't', name: 'rotate-password-managed' as const, startedAt: timestamp(now) },
  ...{ hash: desiredHash({ ...spec, rotations: { app: 'now' } }), deadlineAt: timestamp(now + 30_000) },
}
const of = (given: Given, at = now) => requestedRotations(observedOf(given).database, at)

test('a rotation is pending until it is done, and fails at the deadline of its operation', () => {
  expect(of({})).toEqual({ asked: {}, isGivenUp: false })
  const asked = { app: expect.stringMatching(/^[0-9a-f]{16}$/) }
  expect(of(asking)).toEqual({ asked, isGivenUp: false })
  const given = { ...asking, status: { operation } }
  expect(of(given, now + 29_999)).toEqual({ asked, isGivenUp: false })
  expect(of(given, now + 30_000)).toEqual({ asked, isGivenUp: true })
  const other = { ...asking, status: { operation: { ...operation, hash: 'older' } } }
  expect(of(other, now + 30_000).isGivenUp).toBe(false)
})
