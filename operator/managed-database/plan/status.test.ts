/** The status of a database: its phase, the time of the next pass, and its records. */
import { describe, expect, test } from 'vitest'
import type { Branch, ManagedDatabaseStatus, Task } from '../../../crds/index.ts'
import { desiredDigests, desiredHash, teardownFinalizer } from '../../../crds/index.ts'
import { readRoute } from '../../../routes/route.ts'
import { timestamp } from '../../../values/time.ts'
import { systemIdentifierAnnotation } from '../../member/storage/claim.ts'
import type { VolumeFacts } from '../../member/storage/persistent-volume.ts'
import { conditionOf } from '../../objects/conditions.ts'
import { settings } from '../../testing/cluster-state.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import { phaseNotServed } from '../conditions.ts'

const { now, status: onRecord, children, observedOf, assessmentOf, planOf } = reconciledDatabase()
const { claim, statefulSet, route } = children
const { database, size, appliedSize } = observedOf()
const { deadlines } = settings
const at = '2026-01-01T00:00:00Z'
const changed = <T extends { metadata: object }>(object: T, metadata: object = { annotations: {} }): T => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
})
/** For a claim that does not name its data. */
const { [systemIdentifierAnnotation]: _, ...unnumbered } = claim.metadata.annotations ?? {}
const hashOf = (given: Given) => desiredHash(observedOf(given).database.spec)
const operationOf = (given: Given, name = 'update-managed' as const) => ({
  ...{ taskId: '018f3c6e-7b1a-7c3d-8e4f-0123456789ab', name, hash: hashOf(given), startedAt: at },
  deadlineAt: timestamp(now + 60_000),
})
/** The condition of a database while an operation runs. */
const whileProgressing = { Progressing: { status: 'True' as const, reason: 'Starting', message: '' } }
const silent = { name: 'node-1', silentSince: at, isOutOfService: false }
const rules = { ipAllowlist: { rules: [{ cidr: '192.0.2.0/24' }] } }
const deleting: Given = { metadata: { deletionTimestamp: at } }
const suspended = { suspended: true }
const resting: Given = { spec: suspended, pod: undefined }
const stopped = { statefulSet: assessmentOf(resting).desired.statefulSet }

describe('the phase', () => {
  const phase = (given: Given, time = now) => planOf(given, time).status.phase
  /** The database has new rules, which the operator has not applied yet. */
  const changing = (given: Given): Given => ({
    ...given,
    spec: { ...rules, ...given.spec },
    metadata: { generation: 2 },
  })
  const problem = { reason: 'CrashLoopBackOff', message: 'it ended', refusal: undefined, diskFull: true }
  const failing = { conditions: { Ready: { status: 'False' as const } } }

  test.each<[NonNullable<ManagedDatabaseStatus['phase']>, string, Given]>([
    ['available', 'serves as specified', {}],
    ['available', 'serves as specified after it failed', { status: { phase: 'failed' } }],
    ['creating', 'never existed', { status: { appliedHash: undefined, phase: undefined }, pod: undefined }],
    ['modifying', 'gets new rules', changing({})],
    ['modifying', 'gets new rules after it was degraded', changing({ status: { phase: 'degraded' } })],
    ['suspending', 'should be suspended, and still runs', { spec: suspended, metadata: { generation: 2 } }],
    [
      'suspending',
      'should be suspended, and whose StatefulSet still requests a pod',
      { ...resting, children: { statefulSet } },
    ],
    [
      'suspended',
      'is suspended and gets new rules',
      { ...changing(resting), spec: { ...rules, ...suspended }, status: { phase: 'suspended' } },
    ],
    [
      'suspended',
      'is suspended',
      { ...resting, children: stopped, status: { phase: 'suspending', appliedHash: hashOf(resting) } },
    ],
    [
      'suspending',
      'should be suspended, and whose pod was started again',
      { spec: { ...rules, ...suspended }, status: { phase: 'suspended' } },
    ],
    ['resuming', 'was suspended', changing({ status: { phase: 'suspended' } })],
    ['resuming', 'was being suspended', changing({ status: { phase: 'suspending' } })],
    ['resuming', 'is already being resumed', changing({ status: { phase: 'resuming' } })],
    ['failed', 'has lost its data', { children: { claim: undefined } }],
    [
      'failed',
      'is suspended and has lost its data',
      { ...resting, status: { appliedHash: hashOf(resting) }, children: { ...stopped, claim: undefined } },
    ],
    ['degraded', 'does not answer', { answer: { state: 'refused', reason: 'timeout', message: 'none' } }],
    ['degraded', 'serves on a full disk', { pod: { problem } }],
    ['degraded', 'answers, and cannot write', { answer: { hasFreeSpace: false } }],
    [
      'degraded',
      'serves damaged data',
      { answer: { checksumFailures: { count: 1, databases: ['app'], lastAt: null } } },
    ],
    [
      'degraded',
      'serves from a volume that is being deleted',
      { children: { claim: changed(claim, { deletionTimestamp: at }) } },
    ],
    ['degraded', 'serves with other rules than its specification has', { children: { route: changed(route) } }],
    [
      'degraded',
      'runs, although it should be suspended',
      { spec: suspended, status: { appliedHash: hashOf({ spec: suspended }) } },
    ],
    ['failed', 'failed and does not answer yet', { ...failing, status: { phase: 'failed' }, answer: undefined }],
    ['deleting', 'should be deleted, and is protected', { ...deleting, spec: { deletionProtection: true } }],
    ['deleting', 'is being deleted', deleting],
  ])('is %s of a database that %s', (expected, _, given) => {
    expect(phase(given)).toBe(expected)
  })
  test('is failed after a creation timeout, and degraded after a change timeout', () => {
    const given = { status: { appliedHash: undefined, phase: 'creating' as const }, pod: undefined }
    const late = (name: string) => ({
      ...given,
      conditions: whileProgressing,
      status: { ...given.status, operation: { ...operationOf(given), name } as ReturnType<typeof operationOf> },
    })
    expect(phase(late('create-managed'), now + 60_000)).toBe('failed')
    expect(phase(late('update-managed'), now + 60_000)).toBe('degraded')
  })
})

describe('the time of the next pass', () => {
  const requeueAt = (given: Given, time = now) => planOf(given, time).requeueAt
  const running = { spec: rules, status: { operation: operationOf({ spec: rules }) }, conditions: whileProgressing }
  const volume = (isLabelled: boolean): VolumeFacts => ({
    ...{
      name: 'pv',
      uid: 'pv-uid',
      isTerminating: false,
      isRetained: true,
      policyBefore: undefined,
      isBound: true,
      isLabelled,
    },
    ...{
      claim: undefined,
      claimUid: undefined,
      accessModes: [],
      capacity: '1Gi',
      storageClass: '',
      isProvisioned: true,
    },
  })
  const bound = (isLabelled: boolean) => ({
    volumes: { bound: volume(isLabelled), recorded: undefined, copy: undefined },
  })
  const large = size && { ...size, spec: { ...size.spec, shape: { ...size.spec.shape, storageSize: '2Gi' } } }
  const refusal = (isDue: boolean) => ({
    growthRefusal: { claim: claim.metadata.uid ?? '', storage: '2Gi', message: 'quota', retryAt: now + 7_000, isDue },
  })
  const larger = { spec: { size: { name: 'large', version: 1 } } }
  const ofLarger = { ...larger, status: { appliedHash: hashOf(larger) } }

  test.each<[string, Given, number | undefined]>([
    ['never, if nothing changes', {}, undefined],
    ['at the deadline of a running operation', running, now + 60_000],
    [
      'not at the deadline of an ended operation',
      { ...running, conditions: { Progressing: { status: 'False' } } },
      undefined,
    ],
    ['soon, if the node is silent', { rest: { node: silent } }, now + 30_000],
    ['not because of a node that reports', { rest: { node: { ...silent, silentSince: undefined } } }, undefined],
    ['at once, if the volume lacks its labels', { rest: bound(false) }, now + 1_000],
    ['not because of a volume that has its labels', { rest: bound(true) }, undefined],
    ['at the earliest of several times', { ...running, rest: { node: silent } }, now + 30_000],
    ['when a refused growth is due again', { ...ofLarger, rest: { size: large, ...refusal(false) } }, now + 7_000],
    ['not if that growth is due now', { ...ofLarger, rest: { size: large, ...refusal(true) } }, undefined],
    ['not for a growth that is no longer requested', { rest: refusal(false) }, undefined],
    [
      'not for a growth of a deleted claim',
      { ...ofLarger, children: { claim: undefined }, rest: { size: large, ...refusal(false) } },
      undefined,
    ],
  ])('%s', (_, given, expected) => {
    expect(requeueAt(given)).toBe(expected)
  })

  test('is the next request for automatic growth of the volume', () => {
    const given: Given = {
      spec: { storage: { autogrow: { atPercent: 80, stepPercent: 100, maxSize: '2Gi' } } },
      status: { storage: { capacity: '1Gi', since: at } },
      rest: { volumeUse: 2 ** 30, ...refusal(false) },
    }
    expect(requeueAt(given)).toBe(now + 7_000)
  })
  test('is the polling interval while a claim waits for its volume', () => {
    const waiting = (ageMs: number, creationTimestamp = timestamp(now - ageMs)): Given => {
      const given: Given = {
        status: { volume: undefined, appliedHash: undefined },
        pod: undefined,
        children: {
          claim: { ...changed(claim, { creationTimestamp, annotations: unnumbered }), status: { phase: 'Pending' } },
        },
      }
      return {
        conditions: whileProgressing,
        ...given,
        status: { ...given.status, operation: { ...operationOf(given), deadlineAt: timestamp(now + 3600_000) } },
      }
    }
    expect(requeueAt(waiting(0))).toBe(now + 5_000)
    expect(requeueAt(waiting(119_000))).toBe(now + 5_000)
    expect(requeueAt(waiting(120_000))).toBe(now + 30_000)
  })
})

describe('the wait of a pass', () => {
  test('is for Postgres if only Postgres can answer, and for gateways that have not acknowledged', () => {
    const awaits = (given: Given) => {
      const { awaitsPostgres, awaitsGateways } = planOf(given)
      return { awaitsPostgres, awaitsGateways }
    }
    expect(awaits({})).toEqual({ awaitsPostgres: false, awaitsGateways: false })
    expect(awaits({ answer: undefined })).toEqual({ awaitsPostgres: true, awaitsGateways: false })
    const unacknowledged: Given = {
      route: { acknowledged: false, waitingFor: ['a'] },
      conditions: { EndpointReady: { status: 'False' } },
    }
    expect(awaits(unacknowledged)).toEqual({ awaitsPostgres: false, awaitsGateways: true })
  })
  test('names the configuration that Postgres should run with', () => {
    expect(planOf({}).configurationDigest).toBe(assessmentOf().desired.configurationDigest)
  })
})

describe('the status', () => {
  const statusOf = (given: Given) => planOf(given).status
  const branch = (phase: 'available' | 'deleted', deletionTimestamp?: string) =>
    ({ metadata: { name: 'b', deletionTimestamp }, spec: {}, status: { phase } }) as unknown as Branch // as much of one as is read

  test('without changes is the same', () => {
    expect(statusOf({})).toEqual({
      ...onRecord,
      storage: undefined,
      operation: undefined,
      pendingRestart: undefined,
      maintenance: undefined,
    })
  })
  test('has the observed generation and the node of the pod', () => {
    expect(statusOf({ metadata: { generation: 7 }, pod: { node: 'node-1' } })).toMatchObject({
      observedGeneration: 7,
      instances: [{ id: 'db-5e1d9a523f0e4b43-1-0', role: 'primary', node: 'node-1' }],
    })
    expect(statusOf({}).instances).toEqual([{ id: 'db-5e1d9a523f0e4b43-1-0', role: 'primary' }])
    expect(statusOf({ pod: undefined }).instances).toEqual([])
  })
  test('keeps the address if region or port is missing', () => {
    for (const given of [{ rest: { region: undefined } }, { route: undefined }]) {
      const { endpoint, domain } = statusOf(given)
      expect([endpoint, domain]).toEqual([onRecord.endpoint, onRecord.domain])
    }
  })
  test('counts the branches that are not being deleted', () => {
    const branches = [branch('available'), branch('available'), branch('deleted')]
    expect(statusOf({ rest: { branches } }).branchCount).toBe(2)
  })
  test('records the disk usage in steps that are worth a write', () => {
    const used = (before: number | undefined, dataBytes: number | undefined) =>
      statusOf({ status: { storageUsedBytes: before }, rest: { dataBytes } }).storageUsedBytes
    const mebibyte = 2 ** 20
    expect([used(undefined, undefined), used(7, undefined), used(undefined, 7)]).toEqual([undefined, 7, 7])
    expect([used(0, mebibyte), used(0, mebibyte + 1), used(mebibyte + 1, 0)]).toEqual([0, mebibyte + 1, 0])
    const large = 100 * mebibyte
    expect([used(large, large + 5 * mebibyte), used(large, large + 5 * mebibyte + 1)]).toEqual([
      large,
      large + 5 * mebibyte + 1,
    ])
  })
  test('lists what is applied by member', () => {
    const given: Given = {
      spec: rules,
      status: { operation: operationOf({ spec: rules }) },
      conditions: whileProgressing,
    }
    const { desired } = assessmentOf(given)
    const done = statusOf({ ...given, children: { route: desired.route } })
    expect(done.appliedDigests).toEqual({
      hash: hashOf(given),
      members: desiredDigests(observedOf(given).database.spec),
    })
    expect(statusOf(given).appliedDigests).toEqual(onRecord.appliedDigests)
    expect(statusOf({ status: { appliedHash: undefined } }).appliedDigests).toEqual(onRecord.appliedDigests)
  })
  test('has the new size when the pod has it, or the template of a stopped one', () => {
    const { pinned } = appliedSize
    expect(statusOf({ status: { size: undefined } }).size).toEqual(pinned)
    const another = { spec: { ...suspended, size: { name: 'small', version: 2 } }, pod: undefined }
    expect(statusOf({ ...another, children: { statefulSet: assessmentOf(another).desired.statefulSet } }).size).toEqual(
      { name: 'small', version: 2 },
    )
    expect(statusOf(another).size).toEqual(pinned)
  })
  test('records the volume by the answer of Postgres, unless a finding is fatal', () => {
    const unrecorded = {
      status: { volume: undefined },
      children: { claim: changed(claim, { annotations: unnumbered }) },
    }
    expect(statusOf(unrecorded).volume).toEqual(onRecord.volume)
    const problem = { reason: 'Refused', message: 'it is', refusal: 'other-database' as const, diskFull: false }
    expect(statusOf({ ...unrecorded, pod: { problem } }).volume).toBeUndefined()
  })
  test('has one condition for each finding, and no other', () => {
    const has = (given: Given, type: string) => conditionOf(statusOf(given), type)
    const backup = { durable: true }
    expect(has({ spec: { backup } }, 'Archiving')).toMatchObject({ status: 'False', reason: 'Unknown' })
    expect(has({ configuration: { errors: ['wrong'] } }, 'ConfigurationRefused')?.reason).toBe('NotTaken')
    expect(
      has({ spec: { size: { name: 'huge', version: 1 } }, rest: { size: undefined } }, 'SizeApplied')?.reason,
    ).toBe('SizeNotFound')
    expect(has({ ...deleting, spec: { deletionProtection: true } }, 'DeletionBlocked')).toMatchObject({
      status: 'True',
      reason: 'DeletionProtected',
    })
    expect(has({ pod: { template: 'older' } }, 'RestartPending')).toMatchObject({
      status: 'True',
      reason: 'PodTemplate',
    })
    expect(statusOf({ pod: { template: 'older' } }).pendingRestart).toHaveLength(1)
    for (const type of [
      'BackupsReady',
      'Archiving',
      'ConfigurationRefused',
      'SizeApplied',
      'DeletionBlocked',
      'RestartPending',
    ])
      expect(has({}, type), type).toBeUndefined()
  })
})

describe('without a key of the installation', () => {
  const keys = (sealingKey: boolean, authority: boolean): Given => ({
    pod: undefined,
    rest: { keys: { sealingKey, authority, isChanging: false } },
  })
  test.each<[Given, string]>([
    [keys(false, true), 'SealingKeyMissing'],
    [keys(true, false), 'AuthorityMissing'],
    [keys(false, false), 'SealingKeyMissing'],
  ])('nothing is done, and a condition reports it: %#', (given, reason) => {
    const planned = planOf(given)
    expect(planned).toMatchObject({ actions: [], awaitsPostgres: false, awaitsGateways: false, requeueAt: undefined })
    expect(conditionOf(planned.status, 'KeysAvailable')).toMatchObject({ status: 'False', reason })
    const { conditions: _, ...others } = onRecord
    expect(planned.status).toMatchObject(others)
  })
  test('a new database is creating', () => {
    const given = keys(false, false)
    expect(planOf({ ...given, status: { phase: undefined } }).status).toHaveProperty('phase')
    const bare = observedOf(given)
    expect(bare.database.status?.phase).toBe('available')
  })
})

describe('the identity of the data', () => {
  const contested: Given = { rest: { identity: { state: 'contested', why: 'two say so' } } }
  test('is decided by an administrator if two databases match, and nothing is done', () => {
    const planned = planOf(contested)
    expect(planned).toMatchObject({ actions: [], awaitsPostgres: false, awaitsGateways: false })
    expect(planned.status).toMatchObject({ phase: 'failed', observedGeneration: 1, volume: onRecord.volume })
    for (const type of ['Ready', 'VolumeReady'])
      expect(conditionOf(planned.status, type)).toMatchObject({
        status: 'False',
        reason: 'IdContested',
        message: 'two say so',
      })
    expect(planOf({ ...contested, ...deleting, spec: { deletionProtection: true } }).status.phase).toBe('deleting')
  })
  test('is written to the database before anything is created', () => {
    const unsettled: Given = {
      rest: { identity: { state: 'unsettled', id: 'an-id', why: 'lost' } },
      children: { service: undefined },
    }
    expect(planOf(unsettled)).toMatchObject({ actions: [{ do: 'identify', id: 'an-id' }], status: onRecord })
    const { id } = observedOf().owner ?? {}
    expect(planOf({ metadata: { finalizers: [] } }).actions).toEqual([{ do: 'identify', id }])
    expect(planOf({ metadata: { finalizers: undefined } }).actions).toEqual([{ do: 'identify', id }])
  })
  test('is read from the claim if the status is lost, and is recorded first', () => {
    const annotations = { ...claim.metadata.annotations, [systemIdentifierAnnotation]: 'system-10' }
    const planned = planOf({
      status: { volume: undefined },
      children: { claim: changed(claim, { annotations }), service: undefined },
    })
    expect(planned.actions).toEqual([])
    expect(planned.status).toEqual({ ...onRecord, incarnation: 1, volume: onRecord.volume })
  })
})

describe('a deletion', () => {
  const taskId = '018f3c6e-7b1a-7c3d-8e4f-0123456789ab'
  const operation = { ...operationOf({}), name: 'delete-managed' as const }
  const task: Task = {
    ...{ apiVersion: 'espalier.dev/v1alpha1', kind: 'Task', metadata: { name: taskId } },
    spec: { name: 'delete-managed', subject: { kind: 'database', id: taskId, name: 'one' } },
  }
  const none = Object.fromEntries(Object.keys(observedOf().owned).map(name => [name, []])) as unknown as ReturnType<
    typeof observedOf
  >['owned']
  const progressing = (given: Given, time = now) => conditionOf(planOf(given, time).status, 'Progressing')
  const begun = { Ready: { status: 'False' as const, reason: 'Deleting' } }

  test('starts with a Task and reports its progress', () => {
    const planned = planOf(deleting)
    expect(planned.status).toMatchObject({
      ...{ phase: 'deleting', observedGeneration: 1 },
      operation: {
        name: 'delete-managed',
        startedAt: timestamp(now),
        deadlineAt: timestamp(now + deadlines.deletingMs),
      },
    })
    expect(progressing(deleting)).toMatchObject({ status: 'True', reason: 'Deleting' })
    for (const type of ['Ready', 'EndpointReady'])
      expect(conditionOf(planned.status, type)).toMatchObject({ status: 'False', reason: 'Deleting' })
    expect(planned).toMatchObject({
      awaitsPostgres: false,
      awaitsGateways: false,
      requeueAt: now + deadlines.deletingMs,
    })
    expect(planned.actions, 'the status says so before anything is deleted').toEqual([])
    expect(planOf({ ...deleting, status: planned.status }).actions).not.toEqual([])
  })
  test('continues, and is reported as late at its deadline', () => {
    const given: Given = { ...deleting, status: { operation } }
    expect(planOf(given).status.operation).toEqual(operation)
    expect(conditionOf(planOf(given, now + 59_999).status, 'DeletionBlocked')).toBeUndefined()
    expect(planOf(given, now + 59_999).requeueAt).toBe(now + 60_000)
    const late = planOf(given, now + 60_000)
    expect(late.requeueAt).toBeUndefined()
    expect(conditionOf(late.status, 'DeletionBlocked')).toMatchObject({
      ...{ status: 'True', reason: 'DeletionStuck' },
      message: expect.stringMatching(
        new RegExp(`^the deletion is not done by ${operation.deadlineAt}; current step: `),
      ),
    })
  })
  test('waits until the Task of an ended operation has ended', () => {
    const ended: Given = {
      ...deleting,
      status: { operation: operationOf({}) },
      conditions: { Progressing: { status: 'False', reason: 'Completed' } },
    }
    expect(planOf(ended).status.operation).toEqual(operationOf({}))
    expect(progressing(ended)).toMatchObject({ status: 'False', reason: 'Completed' })
    const over = { ...task, status: { phase: 'succeeded' as const, finishedAt: at } }
    expect(planOf({ ...ended, rest: { task: over } }).status.operation?.name).toBe('delete-managed')
  })
  test('removes the finalizer when nothing is left and its Task exists', () => {
    const deleted: Given = {
      ...{ ...deleting, status: { operation, phase: 'deleting' }, conditions: { ...whileProgressing, ...begun } },
      ...{ route: undefined, children: { route: undefined }, rest: { owned: none, task } },
    }
    expect(planOf(deleted).actions).toEqual([{ do: 'finish-deletion' }])
    expect(planOf({ ...deleted, rest: { owned: none } }).actions).toEqual([])
    expect(planOf({ ...deleted, status: {} }).actions).toEqual([])
  })
  test('is ignored without the finalizer of the operator', () => {
    expect(planOf({ metadata: { ...deleting.metadata, finalizers: ['theirs'] } })).toMatchObject({
      actions: [],
      status: onRecord,
    })
    expect(
      planOf({
        ...{ metadata: { ...deleting.metadata, finalizers: [teardownFinalizer, 'theirs'] }, conditions: begun },
        status: { phase: 'deleting' },
      }).actions,
    ).not.toEqual([])
  })
  test('waits for gateways if nothing else is to be done', () => {
    const closed = readRoute(children.route).route
    const given = (acknowledged: boolean): Given => ({
      ...deleting,
      route: { acknowledged, waitingFor: ['a'], route: closed && { ...closed, rules: [] } },
    })
    expect([planOf(given(false)).actions, planOf(given(false)).awaitsGateways]).toEqual([[], true])
    expect(planOf(given(true)).awaitsGateways).toBe(false)
    expect(planOf({ ...deleting, route: { acknowledged: false } }).awaitsGateways).toBe(false)
  })
  test('runs again for a silent node', () => {
    expect(planOf({ ...deleting, rest: { node: silent } }).requeueAt).toBe(now + 30_000)
  })
  test('ends a restart in a maintenance window without an outcome', () => {
    const begun = { restart: 'w', startedAt: at }
    const ended = { ...begun, endedAt: '2026-01-01T00:00:05Z', outcome: 'completed' as const }
    const maintenance = (before: typeof begun) =>
      planOf({ ...deleting, status: { maintenance: before } }).status.maintenance
    expect(maintenance(begun)).toEqual({ ...begun, endedAt: timestamp(now) })
    expect(maintenance(ended)).toEqual({ ...begun, endedAt: ended.endedAt })
  })
  test('sets the owner annotations of the children first', () => {
    const foreign = changed(children.service, { annotations: { 'espalier.dev/owner-uid': 'one-that-was' } })
    const { owned } = observedOf()
    const given: Given = { children: { service: foreign }, rest: { owned: { ...owned, services: [foreign] } } }
    for (const more of [{}, deleting]) {
      const { actions, status } = planOf({ ...given, ...more })
      expect(actions.map(action => action.do)).toEqual(['label'])
      expect(status).toEqual(observedOf().database.status)
    }
    expect(database.status).toEqual(onRecord)
  })
})

test('a database whose namespace is no longer served is not reported as available', () => {
  expect(phaseNotServed({ phase: 'available' })).toBe('degraded')
  expect(phaseNotServed({})).toBe('creating')
  for (const phase of ['suspended', 'failed', 'deleting'] as const) expect(phaseNotServed({ phase })).toBe(phase)
})
