/** The deletion of a branch: its order, its record, and when the record is deleted. */
import { describe, expect, test } from 'vitest'
import { apiVersion, type Backup, labels, managedByEspalier, type Task } from '../../../crds/index.ts'
import { timestamp } from '../../../values/time.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { derivedId } from '../../objects/derived-id.ts'
import { type GivenBranch, none, reconciledBranch } from '../../testing/reconciled-branch.ts'
import type { Observed } from '../observed.ts'

const { now, ago, status: reconciled, observedOf, planOf } = reconciledBranch()
const serving = observedOf()
const taskId = derivedId(`${serving.branch.metadata.uid}/delete-branch`)
const day = 24 * 3600_000

/** All children are deleted. */
const cleared: Partial<Observed> = {
  ...{ children: none(serving.children, undefined), owned: none(serving.owned, []) },
  ...{ pod: undefined, postgres: undefined, route: undefined },
}
const task = { spec: { name: 'delete-branch' } } as Task // the other fields are not read
const ended = { status: { phase: 'succeeded', finishedAt: ago(0) } } as Task // only these fields are read
const operation = { taskId, name: 'delete-branch' as const, startedAt: ago(5_000) }
const backup: Backup = {
  apiVersion,
  kind: 'Backup',
  metadata: { name: 'prebranch', namespace: 'n', uid: 'b', labels: { [labels.managedBy]: managedByEspalier } },
  spec: { databaseName: 'one', databaseId: 'i', kind: 'hot', purpose: 'prebranch' },
}
const removal = { do: 'delete', kind: 'Backup', name: 'prebranch', namespace: 'n', uid: 'b' }
const deletionRequested = (rest: Partial<Observed> = {}, status: GivenBranch['status'] = {}): GivenBranch => ({
  ...{ spec: { deletionRequestedAt: ago(1_000) }, rest, status },
})
const condition = (given: GivenBranch, type: string) => {
  const { status, reason, message } = conditionOf(planOf(given).status, type) ?? {}
  return [status, reason, message]
}

describe('a branch whose deletion is requested', () => {
  test('closes its endpoint first if it has no services, and reports this step in its conditions', () => {
    const given = deletionRequested()
    const { status, actions, requeueAt } = planOf(given)
    expect(actions).toMatchObject([{ do: 'apply', kind: 'ConfigMap' }])
    expect([status.phase, status.operation, requeueAt]).toEqual([
      'deleting',
      { taskId, name: 'delete-branch', startedAt: ago(0) },
      undefined,
    ])
    expect(condition(given, 'Ready')).toEqual(['False', 'Deleting', 'the branch is being deleted'])
    expect(condition(given, 'EndpointReady')).toEqual([
      'False',
      'Deleting',
      'the endpoint is being closed, because the branch is being deleted',
    ])
    expect(condition(given, 'Progressing')).toEqual(['True', 'Deleting', 'closing the endpoint'])
  })
  test('waits until the gateways acknowledge the closed endpoint', () => {
    const { route } = serving
    const closed = route?.route && { ...route, route: { ...route.route, rules: [] }, acknowledged: false }
    expect(planOf(deletionRequested({ route: closed && { ...closed, waitingFor: ['g'] } }))).toMatchObject({
      ...{ actions: [], awaitsGateways: true },
    })
    expect(planOf(deletionRequested({ route: closed && { ...closed, acknowledged: true } }))).toMatchObject({
      awaitsGateways: false,
    })
    expect(planOf(deletionRequested({ route: route && { ...route, acknowledged: false } }))).toMatchObject({
      awaitsGateways: false,
    })
    expect(planOf(deletionRequested(cleared)).awaitsGateways).toBe(false)
  })
  test('is planned again after 30 s while its node does not report', () => {
    const node = { name: 'n', silentSince: timestamp(now - 1_000), isOutOfService: false }
    expect(planOf(deletionRequested({ node })).requeueAt).toBe(now + 30_000)
  })
  test('deletes its volume before its source backup', () => {
    expect(planOf(deletionRequested({ backup })).actions).not.toContainEqual(removal)
    const given = deletionRequested({ ...cleared, backup })
    expect(planOf(given).actions).toEqual([removal])
    expect(condition(given, 'Progressing')[2]).toBe("deleting the branch's source backup")
    const going = { ...backup, metadata: { ...backup.metadata, deletionTimestamp: ago(0) } }
    expect(planOf(deletionRequested({ ...cleared, backup: going, task }, { operation })).actions).toEqual([])
  })
  test('keeps a foreign backup with the name of its prebranch backup', () => {
    const foreign = { ...backup, metadata: { ...backup.metadata, labels: {} } }
    expect(planOf(deletionRequested({ ...cleared, backup: foreign })).actions).not.toContainEqual(removal)
    expect(
      planOf({ status: { phase: 'failed', connectableAt: undefined }, rest: { ...cleared, backup: foreign } }),
    ).toMatchObject({ actions: [{ do: 'finish-deletion' }] })
  })
  test.each<[string, Partial<Observed>, GivenBranch['status']]>([
    ['has no Task', { ...cleared }, { operation }],
    ['has no operation in its status', { ...cleared, task }, {}],
    [
      'has another operation in its status',
      { ...cleared, task },
      { operation: { ...operation, name: 'create-branch', taskId: 't' } },
    ],
  ])('is not completely deleted while it %s', (_, rest, status) => {
    expect(planOf(deletionRequested(rest, status)).actions).toEqual([])
    expect(planOf(deletionRequested(rest, status)).status.operation?.taskId).toBe(taskId)
  })
  test('leaves a record with the billing times, and without volume or endpoint', () => {
    const given = deletionRequested(
      { ...cleared, task },
      { operation, storage: { capacity: '1Gi', since: ago(0) }, pendingRestart: [] },
    )
    const [action, ...others] = planOf(given).actions
    if (action?.do !== 'leave-record') throw new Error(`the plan has the action ${action?.do}; expected leave-record`)
    const { volume, instances, endpoint, storage, storageUsedBytes, pendingRestart, ...record } = action.status
    expect([volume, instances, endpoint, storage, storageUsedBytes, pendingRestart]).toEqual(Array(6).fill(undefined))
    expect(record).toMatchObject({
      ...{ phase: 'deleted', deletedAt: ago(0), connectableAt: reconciled.connectableAt, source: reconciled.source },
      domain: reconciled.domain,
    })
    const reported = ['Ready', 'EndpointReady', 'Progressing'].map(type => conditionOf(record, type))
    expect(reported.map(one => [one?.status, one?.reason])).toEqual([
      ...[
        ['False', 'Deleted'],
        ['False', 'Deleted'],
        ['False', 'Completed'],
      ],
    ])
    expect(others).toEqual([])
  })
  test('leaves no record if the object itself is deleted', () => {
    const deleted = {
      ...deletionRequested({ ...cleared, task }, { operation }),
      metadata: { deletionTimestamp: ago(0) },
    }
    expect(planOf(deleted).actions).toEqual([{ do: 'finish-deletion' }])
  })
})

describe('a branch whose creation failed', () => {
  const failed = { phase: 'failed' as const, connectableAt: undefined }
  const created = { ...operation, name: 'create-branch' as const }
  test('is cleaned up in the order of a deletion; its finalizer is removed last', () => {
    expect(planOf({ status: failed }).actions).toMatchObject([{ do: 'apply', kind: 'ConfigMap' }])
    expect(planOf({ status: failed, rest: { ...cleared, backup } }).actions).toEqual([removal])
    expect(planOf({ status: failed, rest: cleared }).actions).toEqual([{ do: 'finish-deletion' }])
  })
  test('keeps its status during the cleanup; only `operation` is removed when the Task ends', () => {
    const status = { ...failed, operation: created }
    expect(planOf({ status }).status).toEqual({ ...reconciled, ...status })
    expect(planOf({ status, rest: { task: ended } }).status).toEqual({ ...reconciled, ...failed, operation: undefined })
  })
})

describe('the record of a branch', () => {
  const record = (deletedMs: number, more: GivenBranch = {}): GivenBranch => ({
    ...more,
    metadata: { finalizers: [], ...more.metadata },
    status: { phase: 'deleted', deletedAt: ago(deletedMs), ...more.status },
    rest: { ...cleared, ...more.rest },
  })
  test('is deleted after 30 days', () => {
    expect(planOf(record(0))).toMatchObject({ actions: [], requeueAt: now + 30 * day })
    expect(planOf(record(30 * day - 1_000))).toMatchObject({ actions: [], requeueAt: now + 1_000 })
    expect(planOf(record(30 * day))).toMatchObject({ actions: [{ do: 'delete-record' }], requeueAt: undefined })
  })
  test('without deletedAt is kept', () => {
    expect(planOf(record(0, { status: { deletedAt: undefined } }))).toMatchObject({ actions: [], requeueAt: undefined })
  })
  test('is deleted only after its finalizer is removed', () => {
    const withFinalizer = record(0, { metadata: { finalizers: ['espalier.dev/teardown'] } })
    expect(planOf(withFinalizer)).toMatchObject({ actions: [{ do: 'finish-deletion' }], requeueAt: undefined })
    const deleted = record(30 * day, { metadata: { deletionTimestamp: ago(0) } })
    expect(planOf(deleted)).toMatchObject({ actions: [], requeueAt: undefined })
  })
  test('contains no operation after the Task of the deletion has ended', () => {
    expect(planOf(record(0, { status: { operation } })).status.operation).toEqual(operation)
    expect(planOf(record(0, { status: { operation }, rest: { task: ended } })).status.operation).toBeUndefined()
  })
})

describe('objects that a previous leader creates too late', () => {
  const unheld = { metadata: { finalizers: [] } }
  test.each<[string, GivenBranch['status']]>([
    ["the branch's creation has failed", { phase: 'failed', connectableAt: undefined }],
    ['the branch is deleted', { phase: 'deleted', deletedAt: ago(30 * day) }],
  ])('are deleted if %s', (_, status) => {
    const [secret] = serving.owned.secrets
    if (secret === undefined) throw new Error('there is no Secret')
    const late = { ...cleared, owned: { ...none(serving.owned, []), secrets: [secret] } }
    const { name, namespace } = secret.metadata
    expect(planOf({ ...unheld, status, rest: late }).actions).toMatchObject([
      { do: 'delete', kind: 'Secret', name, namespace },
    ])
    const another = { ...unheld.metadata, uid: 'put-back' }
    expect(planOf({ metadata: another, status, rest: late }).actions.filter(({ do: act }) => act === 'delete')).toEqual(
      [],
    )
    expect(planOf({ ...unheld, status, rest: { ...cleared, backup } }).actions).toEqual([removal])
    const foreign = { ...backup, metadata: { ...backup.metadata, labels: {} } }
    expect(planOf({ ...unheld, status, rest: { ...cleared, backup: foreign } }).actions).not.toContainEqual(removal)
  })
})

describe('after a rejected write', () => {
  const refused = { reason: 'Refused', message: 'the cluster said no', lastTransitionTime: ago(0) }
  const ended = (phase: 'failed' | 'deleted', reason: string): GivenBranch => ({
    rest: cleared,
    status: {
      phase,
      connectableAt: undefined,
      deletedAt: ago(0),
      conditions: [
        { type: 'Ready', status: 'False', ...refused },
        { type: 'Progressing', status: 'False', ...refused, reason, message: 'how it ended' },
      ],
    },
  })

  test.each([
    ['failed', 'SnapshotFailed', 'SnapshotFailed'],
    ['deleted', 'Completed', 'Deleted'],
  ] as const)('Ready reports the outcome of a %s branch again', (phase, reason, reported) => {
    expect(condition(ended(phase, reason), 'Ready')).toEqual(['False', reported, 'how it ended'])
  })
})
