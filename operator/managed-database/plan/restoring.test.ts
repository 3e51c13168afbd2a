/** A restore as an operation of its database: its deadline, its outcome, and its visible progress. */
import { describe, expect, test } from 'vitest'
import {
  annotations,
  desiredHash,
  type ManagedDatabaseStatus,
  type Restore,
  rotationAnnotations,
} from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import type { RestoringFacts } from '../restoring.ts'
import { plan } from './index.ts'

const { now, children, observedOf } = reconciledDatabase()
const deadlines = { creatingMs: 100_000, modifyingMs: 20_000, restoringMs: 7_000_000, deletingMs: 300_000 }
const statusOf = (given: Given, at = now) => plan(observedOf(given), at, { deadlines }).status

const restore = '{"name":"back","backupName":"one-1"}'
const hash = desiredHash({ ...observedOf().database.spec, restore })
const open: RestoringFacts = { state: 'open', reason: 'Starting', message: 'it starts' }
const requested = (restoring: RestoringFacts | undefined = open, given: Given = {}): Given => ({
  ...given,
  metadata: { generation: 2, annotations: { [annotations.restore]: restore } },
  rest: { restoring, ...given.rest },
})
const summaryOf = (given: Given, at = now) => {
  const { operation, phase, appliedHash, ...status } = statusOf(given, at)
  const { status: is, reason, message } = conditionOf(status, 'Progressing') ?? {}
  return { name: operation?.name, phase, appliedHash, progressing: `${is} ${reason}: ${message}` }
}
const before = observedOf().database.status?.appliedHash

describe('a requested restore', () => {
  test('is an operation that reports what the restore waits for', () => {
    expect(summaryOf(requested())).toEqual({
      ...{ name: 'restore-managed', phase: 'restoring', appliedHash: before },
      progressing: 'True Starting: it starts',
    })
  })
  test('creates a Restore if there is none', () => {
    const observed = observedOf(requested())
    const recording = (restores: Restore[]) =>
      plan({ ...observed, previous: { claims: [], restores } }, now, { deadlines }).actions.filter(
        action => action.do === 'record-restore',
      )
    const [action, ...others] = recording([])
    expect(others).toEqual([])
    expect(action).toMatchObject({
      draft: {
        metadata: { name: 'back', labels: { 'app.kubernetes.io/managed-by': 'espalier' } },
        spec: { databaseId: observed.owner?.id, target: { backupName: 'one-1' } },
      },
    })
    const { draft } = action ?? {}
    expect(recording([draft as Restore])).toEqual([])
  })
  test('has the deadline of a restore', () => {
    const deadlineAt = timestamp(now + 7_040_000)
    expect(statusOf(requested()).operation).toMatchObject({ startedAt: timestamp(now), deadlineAt })
  })
  test('continues even if the volume to be replaced has failed', () => {
    const lost: Given = { children: { ...children, claim: undefined } }
    expect(summaryOf(requested(open, lost))).toMatchObject({
      phase: 'restoring',
      progressing: 'True Starting: it starts',
    })
    expect(summaryOf(requested({ ...open, state: 'completed' }, lost))).toMatchObject({
      phase: 'failed',
      appliedHash: hash,
    })
  })
  test('fails with the Restore, and is not requested again', () => {
    const failed: RestoringFacts = { state: 'failed', reason: 'SnapshotLost', message: 'it is gone' }
    expect(summaryOf(requested(failed))).toMatchObject({
      ...{ name: 'restore-managed', phase: 'available', appliedHash: hash },
      progressing: 'False SnapshotLost: it is gone',
    })
  })
  test('ends with the Restore as soon as the database serves', () => {
    const completed: RestoringFacts = { state: 'completed', reason: 'Completed', message: 'm' }
    expect(summaryOf(requested(completed))).toMatchObject({
      ...{ phase: 'available', appliedHash: hash },
      progressing: 'False Completed: everything requested is applied',
    })
    expect(summaryOf(requested(completed, { pod: undefined }))).toMatchObject({
      ...{ phase: 'restoring', appliedHash: before },
      progressing: 'True Starting: waiting for the pod',
    })
  })
  test('is visible beside other requests, by its operation alone', () => {
    const more: Given = { spec: { ipAllowlist: { rules: [] } } }
    expect(summaryOf(requested(open, more))).toMatchObject({ name: 'update-managed', phase: 'restoring' })
    const operation = { ...{ taskId: 't', name: 'restore-managed' as const, hash }, startedAt: timestamp(now) }
    const status: ManagedDatabaseStatus = { operation: { ...operation, deadlineAt: timestamp(now + 1_000) } }
    const unacknowledged = {
      ...requested(undefined, { status, pod: undefined, conditions: { Progressing: { status: 'True' } } }),
      rest: { restoring: undefined },
    }
    expect(summaryOf(unacknowledged)).toMatchObject({ name: 'restore-managed', phase: 'restoring' })
  })
})

describe('the deadline of an operation', () => {
  const generation = { metadata: { generation: 2 } }
  test.each<[string, Given, number]>([
    ['create-managed', { status: { appliedHash: undefined }, pod: undefined }, deadlines.creatingMs],
    ['suspend-managed', { spec: { suspended: true } }, deadlines.modifyingMs],
    ['delete-managed', { metadata: { deletionTimestamp: timestamp(now) } }, deadlines.deletingMs],
  ])('%s', (name, given, ms) => {
    const { operation } = statusOf({
      ...generation,
      ...given,
      metadata: { ...generation.metadata, finalizers: ['espalier.dev/teardown'], ...given.metadata },
    })
    expect(operation).toMatchObject({ name, deadlineAt: timestamp(now + ms) })
  })
})

describe('a rotation', () => {
  const { credentials } = observedOf()
  const rotating = (isGivenUp: boolean): Given => ({
    metadata: { generation: 2, annotations: { [rotationAnnotations.app]: 'now' } },
    rest: { credentials, rotations: { requested: { app: 'now' }, isGivenUp } },
  })
  test('fails at its deadline, and reports which passwords are unchanged', () => {
    expect(summaryOf(rotating(false)).progressing).toMatch(/^True RotatingPasswords: /)
    expect(summaryOf(rotating(true)).progressing).toMatch(
      /^False DeadlineExceeded: the password of app could not be replaced/,
    )
  })
})

describe('a restart in a maintenance window', () => {
  test('is replaced by an operation for a new request, which does not mention the window', () => {
    const maintenance = { restart: 'w', startedAt: timestamp(now - 1_000) }
    const given: Given = {
      ...{ status: { maintenance }, pod: { template: 'older' }, metadata: { generation: 2 } },
      spec: { ipAllowlist: { rules: [{ cidr: '192.0.2.0/24' }] } },
    }
    const { name, progressing } = summaryOf(given)
    expect(name).toBe('update-managed-ip-allowlists')
    expect(progressing).toMatch(/^True /)
    expect(progressing).not.toMatch(/window/)
  })
})
