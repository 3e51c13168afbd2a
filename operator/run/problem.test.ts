/** What a run reports about a failed pass, and when it reports nothing. */
import { expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import type { ManagedDatabase, Restore } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { plan } from '../restore/plan.ts'
import { quotaMessage } from '../restore/quota.ts'
import { notYet } from '../restore/status.ts'
import { ago, database, deadlines, making, now, observed, restore, running } from '../testing/observed-restore.ts'
import { withProblem as report, withoutProblem } from './problem.ts'

const its = restore(running)
const withProblem = ({ metadata, status = {} }: Restore, of: ManagedDatabase | undefined, error: unknown) =>
  report({ metadata, status }, error, { notYet, quota: message => quotaMessage(message, of) }, now)
const previous = [
  { incarnation: 1, claim: 'a', uid: 'a' },
  { incarnation: 2, claim: 'b', uid: 'b' },
]

test.each<[string, unknown, string, RegExp]>([
  [
    'a quota that permits no other volume, and how to free space',
    new ClusterError('Forbidden', 'exceeded quota: tenant, requested: persistentvolumeclaims=1'),
    'QuotaExceeded',
    /^the quota has no space for the restored volume in addition to the current one: exceeded quota: tenant.*; 2 previous volumes from earlier restores can be deleted/,
  ],
  [
    'a quota for another resource',
    new ClusterError('Forbidden', 'exceeded quota: tenant, requested: pods=1'),
    'QuotaExceeded',
    /^the quota has no space for the objects of the restore: exceeded quota: tenant, requested: pods=1$/,
  ],
  ['another refusal', new ClusterError('Invalid', 'spec: no'), 'Refused', /^spec: no$/],
  [
    'a name that another object has',
    new NameTakenError('ConfigMap', { name: 'x' }),
    'NameTaken',
    /belongs to another owner/,
  ],
  [
    'a cluster that does not answer',
    new ClusterError('Unavailable', 'gone'),
    'Retrying',
    /^the last attempt failed: gone$/,
  ],
  [
    'an internal error, without its message',
    new TypeError('secret'),
    'Retrying',
    /^the last attempt failed: see the operator's log/,
  ],
])('a failed pass reports %s', (_, error, reason, message) => {
  const status = withProblem(its, database({ previous }), error)
  expect(status).toMatchObject({ ...running, phase: 'running' })
  expect(conditionOf(status, 'Progressing')).toMatchObject({
    ...{ status: 'True', reason, message: expect.stringMatching(message) },
  })
  expect(conditionOf(status, 'Ready')?.status).toBe('False')
})

test('a failed pass is not reported if the next pass follows at once, or no user waits for the run', () => {
  expect(withProblem(its, undefined, new ClusterError('Conflict', 'x'))).toBeUndefined()
  const ended = restore({ ...running, phase: 'failed', finishedAt: ago(0) })
  expect(withProblem(ended, undefined, new ClusterError('Unavailable', 'x'))).toBeUndefined()
})

test('the error of a failed pass is the reason reported at the deadline', () => {
  const status = withProblem(its, undefined, new ClusterError('Forbidden', 'no right to it'))
  const late = restore({ ...running, ...status, deadlineAt: ago(1) })
  const { error } = plan(observed({ restore: late, candidate: making }), now, deadlines).status
  expect(error).toMatch(/^not done by .*: no right to it$/)
})

const forbidden = new ClusterError('Forbidden', 'no right to it')

test('a failed pass sets no phase if there is none, since a recreated run is recognised by that', () => {
  const status = withProblem(restore(undefined), undefined, new ClusterError('Unavailable', 'gone'))
  expect(status?.phase).toBeUndefined()
  expect(conditionOf(status, 'Progressing')?.reason).toBe('Retrying')
})

test('a refusal in the cleanup of an ended run is reported beside its outcome, until the cleanup is allowed', () => {
  const outcome = {
    ...{ type: 'Progressing', status: 'False' as const, reason: 'Deleted', message: 'm' },
    lastTransitionTime: ago(9),
  }
  const replaced = { ...outcome, type: 'DatabaseReplaced', reason: 'AnotherId' } as const
  const ended = { ...running, phase: 'failed', finishedAt: ago(0), conditions: [outcome, replaced] } as const
  const status = withProblem(restore({ ...ended, conditions: [...ended.conditions] }), undefined, forbidden)
  const reported = { type: 'CleanedUp', status: 'False', reason: 'Refused', message: 'no right to it' }
  expect(status).toEqual({ ...ended, conditions: [outcome, expect.objectContaining(reported), replaced] })
  expect(withoutProblem(status ?? {})).toEqual(ended)
})

test('a refusal during the deletion of a run is reported as what the deletion waits for', () => {
  const ended = restore({ ...running, phase: 'completed', finishedAt: ago(0) }, { deletionTimestamp: ago(0) })
  const status = withProblem(ended, undefined, forbidden)
  expect(conditionOf(status, 'Progressing')).toMatchObject({ status: 'True', reason: 'Refused' })
  expect(conditionOf(status, 'CleanedUp')).toBeUndefined()
})

test('a failed pass changes no condition that deadlines depend on', () => {
  const waits = {
    type: 'DatabaseServing',
    status: 'False',
    reason: 'NotServing',
    message: 'm',
    lastTransitionTime: ago(9),
  } as const
  const status = withProblem(restore({ ...running, conditions: [waits] }), undefined, forbidden)
  expect(conditionOf(status, 'DatabaseServing')).toEqual(waits)
})
