/** What a run reports of a pass that failed, and when it reports nothing. */
import { expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import type { ManagedDatabase, Restore } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { plan } from '../restore/plan.ts'
import { quotaMessage } from '../restore/quota.ts'
import { notYet } from '../restore/status.ts'
import { ago, database, deadlines, making, now, observed, restore, running } from '../testing/observed-restore.ts'
import { troubled as report, untroubled } from './trouble.ts'

const its = restore(running)
const troubled = ({ metadata, status = {} }: Restore, of: ManagedDatabase | undefined, error: unknown) =>
  report({ metadata, status }, error, { notYet, quota: message => quotaMessage(message, of) }, now)
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
  const status = troubled(its, database({ previous }), error)
  expect(status).toMatchObject({ ...running, phase: 'running' })
  expect(conditionOf(status, 'Progressing')).toMatchObject({
    ...{ status: 'True', reason, message: expect.stringMatching(message) },
  })
  expect(conditionOf(status, 'Ready')?.status).toBe('False')
})

test('it says nothing where the next pass follows at once, or nobody waits', () => {
  expect(troubled(its, undefined, new ClusterError('Conflict', 'x'))).toBeUndefined()
  const ended = restore({ ...running, phase: 'failed', finishedAt: ago(0) })
  expect(troubled(ended, undefined, new ClusterError('Unavailable', 'x'))).toBeUndefined()
})

test('what held it up is the reason at its deadline', () => {
  const status = troubled(its, undefined, new ClusterError('Forbidden', 'no right to it'))
  const late = restore({ ...running, ...status, deadlineAt: ago(1) })
  const { error } = plan(observed({ restore: late, candidate: making }), now, deadlines).status
  expect(error).toMatch(/^not done by .*: no right to it$/)
})

const forbidden = new ClusterError('Forbidden', 'no right to it')

test('it gives no phase to one that has none: what was put back is recognised by that', () => {
  const status = troubled(restore(undefined), undefined, new ClusterError('Unavailable', 'gone'))
  expect(status?.phase).toBeUndefined()
  expect(conditionOf(status, 'Progressing')?.reason).toBe('Retrying')
})

test('what is refused of the cleanup of one that has ended is beside its outcome, until it is allowed', () => {
  const outcome = {
    ...{ type: 'Progressing', status: 'False' as const, reason: 'Deleted', message: 'm' },
    lastTransitionTime: ago(9),
  }
  const replaced = { ...outcome, type: 'DatabaseReplaced', reason: 'AnotherId' } as const
  const ended = { ...running, phase: 'failed', finishedAt: ago(0), conditions: [outcome, replaced] } as const
  const status = troubled(restore({ ...ended, conditions: [...ended.conditions] }), undefined, forbidden)
  const told = { type: 'CleanedUp', status: 'False', reason: 'Refused', message: 'no right to it' }
  expect(status).toEqual({ ...ended, conditions: [outcome, expect.objectContaining(told), replaced] })
  expect(untroubled(status ?? {})).toEqual(ended)
})

test('what is refused of the deletion of one is what its deletion waits for', () => {
  const ended = restore({ ...running, phase: 'completed', finishedAt: ago(0) }, { deletionTimestamp: ago(0) })
  const status = troubled(ended, undefined, forbidden)
  expect(conditionOf(status, 'Progressing')).toMatchObject({ status: 'True', reason: 'Refused' })
  expect(conditionOf(status, 'CleanedUp')).toBeUndefined()
})

test('it leaves conditions alone that deadlines go by', () => {
  const waits = {
    type: 'DatabaseServing',
    status: 'False',
    reason: 'NotServing',
    message: 'm',
    lastTransitionTime: ago(9),
  } as const
  const status = troubled(restore({ ...running, conditions: [waits] }), undefined, forbidden)
  expect(conditionOf(status, 'DatabaseServing')).toEqual(waits)
})
