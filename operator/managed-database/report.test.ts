import { describe, expect, test } from 'vitest'
import type { ManagedDatabaseStatus } from '../../crds/index.ts'
import { conditionOf, no, yes } from '../objects/conditions.ts'
import { type Problem, withProblems } from '../owner/problems.ts'
import { type Findings, nextConditions } from './conditions.ts'
import { endedOperation, eventsOf } from './report.ts'

const now = Date.parse('2026-01-01T00:01:00Z')
const operation = {
  taskId: 't',
  name: 'create-managed' as const,
  hash: 'h',
  startedAt: '2026-01-01T00:00:00Z',
  deadlineAt: '2026-01-01T00:10:00Z',
}
const status = (findings: Findings, more: ManagedDatabaseStatus = {}): ManagedDatabaseStatus => ({
  ...more,
  conditions: nextConditions([], findings, 1, now - 60_000),
})

describe('problems of actions', () => {
  const reported = ({ conditions = [] }: ManagedDatabaseStatus, problem: Problem) => ({
    conditions: withProblems(conditions, [problem], (before, findings) => nextConditions(before, findings, 1, now)),
  })
  const taken = { condition: 'Progressing' as const, reason: 'NameTaken', message: 'taken' }
  test('a problem with an object, while an operation runs, is in Progressing', () => {
    const after = reported(status({ Progressing: yes('Starting', ''), Ready: no('NotRunning', '') }), taken)
    expect(conditionOf(after, 'Progressing')).toMatchObject({ status: 'True', reason: 'NameTaken' })
    expect(conditionOf(after, 'Ready')).toMatchObject({ status: 'False', reason: 'NameTaken' })
  })
  test('a problem with an object of a database that serves, with no operation, changes ChildrenApplied alone', () => {
    const before = status({
      Progressing: no('Completed', ''),
      Ready: yes('Serving', ''),
      DeletionBlocked: yes('x', ''),
    })
    const { conditions } = reported(before, taken)
    expect(conditions.filter(({ type }) => type !== 'ChildrenApplied')).toEqual(before.conditions)
    expect(conditionOf({ conditions }, 'ChildrenApplied')).toMatchObject({ status: 'False', reason: taken.reason })
  })
  test('a problem with a part is in the condition of the part', () => {
    const full = { condition: 'VolumeReady' as const, reason: 'DiskFull', message: 'full' }
    const after = reported(status({ VolumeReady: yes('Bound', ''), Ready: no('RolesPending', '') }), full)
    expect(conditionOf(after, 'VolumeReady')).toMatchObject({
      status: 'False',
      reason: 'DiskFull',
      lastTransitionTime: '2026-01-01T00:01:00Z',
    })
  })
})

describe('Events', () => {
  const reasons = (before: ManagedDatabaseStatus | undefined, after: ManagedDatabaseStatus) =>
    eventsOf(before, after).map(({ type, reason }) => `${type} ${reason}`)
  test('report starts, phases and what needs an administrator, once', () => {
    const started = status({ VolumeReady: no('Pending', '') }, { phase: 'creating', operation })
    expect(reasons(undefined, started)).toEqual(['Normal OperationStarted'])
    const lost = status({ VolumeReady: no('VolumeLost', 'gone') }, { phase: 'failed', operation })
    expect(reasons(started, lost)).toEqual(['Warning Failed', 'Warning VolumeLost'])
    expect(reasons(lost, lost)).toEqual([])
    const changed = status({ CredentialsReady: yes('PasswordChangedByUser', 'app') }, { phase: 'available' })
    expect(reasons(status({}, { phase: 'available' }), changed)).toEqual(['Warning PasswordChangedByUser'])
  })
  test('report retention that verification blocks, once', () => {
    const before = status({}, { phase: 'available' })
    const retained = status({ RetentionHeld: yes('BeforeFailedVerification', 'kept') }, { phase: 'available' })
    expect(reasons(before, retained)).toEqual(['Warning BeforeFailedVerification'])
    expect(reasons(retained, retained)).toEqual([])
  })
  test('report a restart with another size when it starts', () => {
    const growing = status({ SizeApplied: no('Growing', 'the size small is applied') })
    const restarting = status({ SizeApplied: no('Restarting', 'the restart applies the size large') })
    expect(reasons(status({}), growing)).toEqual([])
    expect(reasons(growing, restarting)).toEqual(['Normal Restarting'])
    expect(reasons(restarting, restarting)).toEqual([])
  })
  test('report each step of automatic growth once, and what blocks it', () => {
    const since = '2026-01-01T00:00:00Z'
    const has = (capacity: string, growsTo?: string, findings: Findings = {}) =>
      status(findings, { storage: { capacity, since, ...(growsTo === undefined ? {} : { growsTo }) } })
    const growing = no('Growing', 'it is 80 % full')
    expect(reasons(status({}), has('1Gi'))).toEqual([])
    expect(reasons(has('1Gi'), has('1Gi', '2Gi', { VolumeGrown: growing }))).toEqual(['Normal VolumeGrows'])
    expect(reasons(has('1Gi', '2Gi'), has('1Gi', '2Gi'))).toEqual([])
    expect(reasons(has('1Gi', '2Gi'), has('2Gi'))).toEqual(['Normal VolumeHasGrown'])
    expect(reasons(has('1Gi', '2Gi'), has('2Gi', '3Gi'))).toEqual(['Normal VolumeHasGrown', 'Normal VolumeGrows'])
    const refused = has('1Gi', '2Gi', { VolumeGrown: no('GrowthRefused', 'quota') })
    expect(reasons(has('1Gi', '2Gi', { VolumeGrown: growing }), refused)).toEqual(['Warning GrowthRefused'])
    expect(reasons(has('1Gi'), has('1Gi', undefined, { VolumeGrown: no('AtMaximum', 'full') }))).toEqual([
      'Warning AtMaximum',
    ])
  })
})

test('an operation ends once, with its duration', () => {
  const running = status({ Progressing: yes('Starting', '') }, { operation })
  const ended = status({ Progressing: no('Completed', '') }, { operation })
  expect(endedOperation(running, ended, now)).toEqual({ name: 'create-managed', outcome: 'Completed', seconds: 60 })
  expect(endedOperation(ended, ended, now)).toBeUndefined()
  expect(endedOperation(undefined, running, now)).toBeUndefined()
})
