/** What a restore says of a pass that failed, and when it says nothing. */
import { expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { ago, database, deadlines, making, now, observed, restore, running } from '../testing/observed-restore.ts'
import { plan } from './plan.ts'
import { troubled } from './trouble.ts'

const its = restore(running)
const previous = [
  { incarnation: 1, claim: 'a', uid: 'a' },
  { incarnation: 2, claim: 'b', uid: 'b' },
]

test.each<[string, unknown, string, RegExp]>([
  [
    'a quota that allows no other volume, and what would make space',
    new ClusterError('Forbidden', 'exceeded quota: tenant, requested: persistentvolumeclaims=1'),
    'QuotaExceeded',
    /^the quota has no space for the restored volume beside the present one: exceeded quota: tenant.*; 2 volumes of before earlier restores can be deleted/,
  ],
  [
    'a quota of something else',
    new ClusterError('Forbidden', 'exceeded quota: tenant, requested: pods=1'),
    'QuotaExceeded',
    /^the quota has no space for what the restore makes: exceeded quota: tenant, requested: pods=1$/,
  ],
  ['what is refused otherwise', new ClusterError('Invalid', 'spec: no'), 'Refused', /^spec: no$/],
  ['a name that is taken', new NameTakenError('ConfigMap', { name: 'x' }), 'NameTaken', /belongs to someone else/],
  [
    'a cluster that does not answer',
    new ClusterError('Unavailable', 'gone'),
    'Retrying',
    /^the last try failed: gone$/,
  ],
  ['a mistake, without its words', new TypeError('secret'), 'Retrying', /^the last try failed: see the log/],
])('it says %s', (_, error, reason, message) => {
  const status = troubled(its, database({ previous }), error, now)
  expect(status).toMatchObject({ ...running, phase: 'running' })
  expect(conditionOf(status, 'Progressing')).toMatchObject({
    ...{ status: 'True', reason, message: expect.stringMatching(message) },
  })
  expect(conditionOf(status, 'Ready')?.status).toBe('False')
})

test('it says nothing where the next pass follows at once, or nobody waits', () => {
  expect(troubled(its, undefined, new ClusterError('Conflict', 'x'), now)).toBeUndefined()
  const ended = restore({ ...running, phase: 'failed', finishedAt: ago(0) })
  expect(troubled(ended, undefined, new ClusterError('Unavailable', 'x'), now)).toBeUndefined()
})

test('what held it up is the reason at its deadline', () => {
  const status = troubled(its, undefined, new ClusterError('Forbidden', 'no right to it'), now)
  const late = restore({ ...running, ...status, deadlineAt: ago(1) })
  const { error } = plan(observed({ restore: late, candidate: making }), now, deadlines).status
  expect(error).toMatch(/^not done by .*: no right to it$/)
})
