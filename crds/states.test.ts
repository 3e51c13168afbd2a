/** The meaning of an object's state for clients: which objects count, which have ended, and what a client can do. */
import { describe, expect, test } from 'vitest'
import { type Backup, requestedVerification, verificationOf } from './backup.ts'
import { type Branch, type BranchPhase, branchPhase, isFailedCreation, isLiveBranch } from './branch.ts'
import { apiVersion } from './kind.ts'
import { awaitsData, type ManagedDatabase } from './managed-database.ts'
import { annotations } from './metadata.ts'
import { annotatedOperation, renderOperation } from './operation.ts'
import { type Region, snapshotRefusal } from './region.ts'
import { isOpenRestore, type Restore, renderRequestedRestore, requestedRestore } from './restore.ts'
import { isEnded, type Task } from './task.ts'
import { tenantName, tenantNamespace } from './tenant.ts'

const at = '2026-01-01T00:00:00Z'

describe('a branch', () => {
  type Given = { phase?: BranchPhase; connectableAt?: string; requested?: true; deleted?: true }
  // Only the fields that the functions read.
  const branch = ({ phase, connectableAt, requested, deleted }: Given) =>
    ({
      metadata: { name: 'b', ...(deleted ? { deletionTimestamp: at } : {}) },
      spec: requested ? { deletionRequestedAt: at } : {},
      status: { ...(phase ? { phase } : {}), ...(connectableAt ? { connectableAt } : {}) },
    }) as unknown as Branch

  test.each<[string, Given, BranchPhase, live: boolean]>([
    ['without a phase', {}, 'creating', true],
    ['that is being created', { phase: 'creating' }, 'creating', true],
    ['that serves', { phase: 'available' }, 'available', true],
    ['that served and failed', { phase: 'failed', connectableAt: at }, 'failed', true],
    ['that failed before it served', { phase: 'failed' }, 'failed', false],
    ['whose deletion is requested', { phase: 'available', requested: true }, 'deleting', false],
    ['whose object is deleted', { phase: 'available', deleted: true }, 'deleting', false],
    ['that is being deleted', { phase: 'deleting' }, 'deleting', false],
    ['of which only the record remains', { phase: 'deleted', requested: true }, 'deleted', false],
  ])('%s is reported with its phase, and counts or not', (_, given, phase, live) => {
    expect([branchPhase(branch(given)), isLiveBranch(branch(given))]).toEqual([phase, live])
  })
  test('without a status is being created', () => {
    const { status: _, ...bare } = branch({})
    expect([branchPhase(bare as Branch), isFailedCreation(bare as Branch)]).toEqual(['creating', false])
  })
  test('is a failed creation only if it failed before any client could connect', () => {
    const failedCreation = (given: Given) => isFailedCreation(branch(given))
    expect([
      failedCreation({ phase: 'failed' }),
      failedCreation({ phase: 'failed', connectableAt: at }),
      failedCreation({ phase: 'creating' }),
    ]).toEqual([true, false, false])
  })
})

describe('a verification', () => {
  type Status = NonNullable<Backup['status']>
  const backup = (status?: Partial<Status>, requested?: string) =>
    ({
      metadata: { name: 'b', annotations: requested === undefined ? {} : { [annotations.verify]: requested } },
      status,
    }) as Backup
  const result = (requested?: string) => ({
    verificationResult: { endedAt: at, ...(requested === undefined ? {} : { asked: requested }) },
  })

  test.each<[string, Backup, Status['verification']]>([
    ['is not requested', backup({ phase: 'completed' }), undefined],
    ['has begun automatically', backup({ phase: 'completed', verification: 'pending' }), 'pending'],
    ['is requested', backup({ phase: 'completed' }, '1'), 'pending'],
    [
      'was requested, and has ended',
      backup({ phase: 'completed', verification: 'verified', ...result('1') }, '1'),
      'verified',
    ],
    ['is requested again', backup({ phase: 'completed', verification: 'verified', ...result('1') }, '2'), 'pending'],
    [
      'is requested after an automatic verification',
      backup({ phase: 'completed', verification: 'failed', ...result() }, '1'),
      'pending',
    ],
    ['is no longer requested', backup({ phase: 'completed', verification: 'failed', ...result('1') }), 'failed'],
    ['is requested of a running backup', backup({ phase: 'running' }, '1'), undefined],
    ['is requested of a failed backup', backup({ phase: 'failed', verification: 'verified' }, '1'), 'verified'],
    ['is requested of a backup without a status', backup(undefined, '1'), undefined],
  ])('that %s is reported correctly', (_, of, expected) => {
    expect(verificationOf(of)).toBe(expected)
  })
  test('is identified by the first characters of its annotation', () => {
    const long = 'x'.repeat(65)
    expect(requestedVerification(backup({}, long))).toBe('x'.repeat(64))
    expect(verificationOf(backup({ phase: 'completed', ...result('x'.repeat(64)) }, long))).toBeUndefined()
  })
})

test.each<[string, object, boolean]>([
  ['names a backup, and has no volume', { spec: { dataSource: {} } }, true],
  ['names a backup, and has no status', { spec: { dataSource: {} }, status: undefined }, true],
  ['has its volume', { spec: { dataSource: {} }, status: { volume: {} } }, false],
  ['is being deleted', { spec: { dataSource: {} }, metadata: { deletionTimestamp: at } }, false],
  ['names no backup', {}, false],
])("a database still waits for a backup's data, or not: a database that %s", (_, given, is) => {
  expect(awaitsData({ metadata: { name: 'one' }, spec: {}, status: {}, ...given } as ManagedDatabase)).toBe(is)
})

describe('a snapshot', () => {
  const region = (snapshotClass?: { name: string; atomic: boolean }) =>
    ({ spec: { ...(snapshotClass ? { snapshotClass } : {}) } }) as Region
  test('is possible if its class is declared as atomic', () => {
    expect(snapshotRefusal('here', region({ name: 'fast', atomic: true }))).toBeUndefined()
  })
  test.each<[Region | undefined, string, RegExp]>([
    [undefined, 'RegionMissing', /^there is no region here$/],
    [region(), 'NoSnapshots', /^region here names no snapshot class/],
    [
      region({ name: 'slow', atomic: false }),
      'NotAtomic',
      /^snapshots of class slow are not declared to be of one instant/,
    ],
  ])('is refused with the reason: %#', (where, reason, message) => {
    expect(snapshotRefusal('here', where)).toEqual({ reason, message: expect.stringMatching(message) })
  })
})

test.each([
  ['queued', false],
  ['running', false],
  ['succeeded', true],
  ['failed', true],
  [undefined, false],
] as const)('a Task that is %s has ended: %j', (phase, is) => {
  expect(isEnded({ status: { phase } } as Pick<Task, 'status'>)).toBe(is)
  expect(isEnded({})).toBe(false)
})

describe('a restore', () => {
  test.each([
    [undefined, true],
    ['pending', true],
    ['running', true],
    ['completed', false],
    ['failed', false],
  ] as const)('that is %s is open: %j', (phase, is) => {
    expect(isOpenRestore({ status: { phase } } as Restore)).toBe(is)
    expect(isOpenRestore({} as Restore)).toBe(true)
  })
  const named = (text?: string) =>
    requestedRestore({
      metadata: { name: 'one', ...(text === undefined ? {} : { annotations: { [annotations.restore]: text } }) },
    })
  const requested = { name: 'one-1', backupName: 'nightly', id: '0197a2b4-0000-4000-8000-00000000000f' }
  test('is requested by an annotation, which is read back unchanged', () => {
    expect(named(renderRequestedRestore(requested))).toEqual(requested)
    const { id: _, ...byHand } = requested
    expect(named(renderRequestedRestore(byHand))).toEqual(byHand)
  })
  test.each([
    ['nothing', undefined],
    ['no JSON', '{'],
    ['no object', '"one"'],
    ['no name', '{"backupName":"nightly"}'],
    ['an invalid object name', '{"name":"One","backupName":"nightly"}'],
    ['a name that ends in a dash', '{"name":"one-","backupName":"nightly"}'],
    ['no backup', '{"name":"one","backupName":""}'],
    ['an invalid id', '{"name":"one","backupName":"nightly","id":"7"}'],
    ['an unknown field', '{"name":"one","backupName":"nightly","more":1}'],
  ])('is not requested by an annotation with %s', (_, text) => {
    expect(named(text)).toBeUndefined()
  })
})

describe('the annotation of an operation', () => {
  const named = (text?: string) =>
    annotatedOperation({
      metadata: { name: 'one', ...(text === undefined ? {} : { annotations: { [annotations.operation]: text } }) },
    })
  const operation = { taskId: '0197a2b4-0000-4000-8000-00000000000f', name: 'update-managed', hash: 'h' } as const
  test('is read back unchanged', () => {
    expect(named(renderOperation(operation))).toEqual(operation)
  })
  test.each([
    undefined,
    '',
    '{',
    '{}',
    JSON.stringify({ ...operation, name: 'format-disks' }),
    JSON.stringify({ ...operation, taskId: '7' }),
    JSON.stringify({ ...operation, more: 1 }),
  ])('names no operation as %j', text => {
    expect(named(text)).toBeUndefined()
  })
})

test("a tenant's objects always have the same names, whatever characters its id has", () => {
  expect(tenantName('acme')).toBe('t-822b33ad87c148a0a20a')
  expect(tenantNamespace('acme')).toBe('espalier-t-822b33ad87c148a0a20a')
  expect(tenantName('ACME/😀')).toMatch(/^t-[0-9a-f]{20}$/)
  expect(apiVersion).toBe('espalier.dev/v1alpha1')
})
