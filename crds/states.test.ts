/** What the state of an object means to whoever reads it: who counts, what is over, what can be done. */
import { describe, expect, test } from 'vitest'
import { type Backup, verificationAsked, verificationOf } from './backup.ts'
import { type Branch, type BranchPhase, branchPhase, isFailedCreation, isLiveBranch } from './branch.ts'
import { apiVersion } from './kind.ts'
import { awaitsData, type ManagedDatabase } from './managed-database.ts'
import { annotations } from './metadata.ts'
import { annotatedOperation, renderOperation } from './operation.ts'
import { type Region, snapshotRefusal } from './region.ts'
import { askedRestore, isOpenRestore, type Restore, renderAskedRestore } from './restore.ts'
import { isEnded, type Task } from './task.ts'
import { tenantName, tenantNamespace } from './tenant.ts'

const at = '2026-01-01T00:00:00Z'

describe('a branch', () => {
  type Given = { phase?: BranchPhase; connectableAt?: string; requested?: true; deleted?: true }
  // As much of one as is read.
  const branch = ({ phase, connectableAt, requested, deleted }: Given) =>
    ({
      metadata: { name: 'b', ...(deleted ? { deletionTimestamp: at } : {}) },
      spec: requested ? { deletionRequestedAt: at } : {},
      status: { ...(phase ? { phase } : {}), ...(connectableAt ? { connectableAt } : {}) },
    }) as unknown as Branch

  test.each<[string, Given, BranchPhase, live: boolean]>([
    ['of which nothing is said yet', {}, 'creating', true],
    ['on its way', { phase: 'creating' }, 'creating', true],
    ['that serves', { phase: 'available' }, 'available', true],
    ['that served, and does not', { phase: 'failed', connectableAt: at }, 'failed', true],
    ['that never served, and never will', { phase: 'failed' }, 'failed', false],
    ['whose deletion is requested', { phase: 'available', requested: true }, 'deleting', false],
    ['whose object is deleted', { phase: 'available', deleted: true }, 'deleting', false],
    ['that is being taken away', { phase: 'deleting' }, 'deleting', false],
    ['of which the record is left', { phase: 'deleted', requested: true }, 'deleted', false],
  ])('%s is seen as what it is, and counts or not', (_, given, phase, live) => {
    expect([branchPhase(branch(given)), isLiveBranch(branch(given))]).toEqual([phase, live])
  })
  test('without a status is on its way', () => {
    const { status: _, ...bare } = branch({})
    expect([branchPhase(bare as Branch), isFailedCreation(bare as Branch)]).toEqual(['creating', false])
  })
  test('is unmade only where it failed before anybody could connect', () => {
    const unmade = (given: Given) => isFailedCreation(branch(given))
    expect([
      unmade({ phase: 'failed' }),
      unmade({ phase: 'failed', connectableAt: at }),
      unmade({ phase: 'creating' }),
    ]).toEqual([true, false, false])
  })
})

describe('a verification', () => {
  type Status = NonNullable<Backup['status']>
  const backup = (status?: Partial<Status>, mark?: string) =>
    ({
      metadata: { name: 'b', annotations: mark === undefined ? {} : { [annotations.verify]: mark } },
      status,
    }) as Backup
  const result = (asked?: string) => ({
    verificationResult: { endedAt: at, ...(asked === undefined ? {} : { asked }) },
  })

  test.each<[string, Backup, Status['verification']]>([
    ['nobody asks for', backup({ phase: 'completed' }), undefined],
    ['has begun by itself', backup({ phase: 'completed', verification: 'pending' }), 'pending'],
    ['is asked for', backup({ phase: 'completed' }, '1'), 'pending'],
    ['was asked for', backup({ phase: 'completed', verification: 'verified', ...result('1') }, '1'), 'verified'],
    ['is asked for again', backup({ phase: 'completed', verification: 'verified', ...result('1') }, '2'), 'pending'],
    ['came by itself before', backup({ phase: 'completed', verification: 'failed', ...result() }, '1'), 'pending'],
    ['is taken back', backup({ phase: 'completed', verification: 'failed', ...result('1') }), 'failed'],
    ['is asked for of a backup that is not there yet', backup({ phase: 'running' }, '1'), undefined],
    ['is asked for of one that failed', backup({ phase: 'failed', verification: 'verified' }, '1'), 'verified'],
    ['is asked for of one of which nothing is said', backup(undefined, '1'), undefined],
  ])('that %s stands as it should', (_, of, expected) => {
    expect(verificationOf(of)).toBe(expected)
  })
  test('is known by how its annotation begins', () => {
    const long = 'x'.repeat(65)
    expect(verificationAsked(backup({}, long))).toBe('x'.repeat(64))
    expect(verificationOf(backup({ phase: 'completed', ...result('x'.repeat(64)) }, long))).toBeUndefined()
  })
})

test.each<[string, object, boolean]>([
  ['names one, and has no volume', { spec: { dataSource: {} } }, true],
  ['names one, of which nothing else is said', { spec: { dataSource: {} }, status: undefined }, true],
  ['has its volume', { spec: { dataSource: {} }, status: { volume: {} } }, false],
  ['goes', { spec: { dataSource: {} }, metadata: { deletionTimestamp: at } }, false],
  ['names none', {}, false],
])('a database still waits for the data of a backup: one that %s', (_, given, is) => {
  expect(awaitsData({ metadata: { name: 'one' }, spec: {}, status: {}, ...given } as ManagedDatabase)).toBe(is)
})

describe('a snapshot', () => {
  const region = (snapshotClass?: { name: string; atomic: boolean }) =>
    ({ spec: { ...(snapshotClass ? { snapshotClass } : {}) } }) as Region
  test('can be taken where its class is declared to be of one instant', () => {
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
    askedRestore({
      metadata: { name: 'one', ...(text === undefined ? {} : { annotations: { [annotations.restore]: text } }) },
    })
  const asked = { name: 'one-1', backupName: 'nightly', id: '0197a2b4-0000-4000-8000-00000000000f' }
  test('is asked for by an annotation, which is read as it was written', () => {
    expect(named(renderAskedRestore(asked))).toEqual(asked)
    const { id: _, ...byHand } = asked
    expect(named(renderAskedRestore(byHand))).toEqual(byHand)
  })
  test.each([
    ['nothing', undefined],
    ['no JSON', '{'],
    ['no object', '"one"'],
    ['no name', '{"backupName":"nightly"}'],
    ['a name that no object has', '{"name":"One","backupName":"nightly"}'],
    ['a name that ends in a dash', '{"name":"one-","backupName":"nightly"}'],
    ['no backup', '{"name":"one","backupName":""}'],
    ['an id that is none', '{"name":"one","backupName":"nightly","id":"7"}'],
    ['something more', '{"name":"one","backupName":"nightly","more":1}'],
  ])('is not asked for by an annotation with %s', (_, text) => {
    expect(named(text)).toBeUndefined()
  })
})

describe('the annotation of an operation', () => {
  const named = (text?: string) =>
    annotatedOperation({
      metadata: { name: 'one', ...(text === undefined ? {} : { annotations: { [annotations.operation]: text } }) },
    })
  const operation = { taskId: '0197a2b4-0000-4000-8000-00000000000f', name: 'update-managed', hash: 'h' } as const
  test('is read as it was written', () => {
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
  ])('names none as %j', text => {
    expect(named(text)).toBeUndefined()
  })
})

test("a tenant's objects are found by its id, whatever characters that has, and always the same", () => {
  expect(tenantName('acme')).toBe('t-822b33ad87c148a0a20a')
  expect(tenantNamespace('acme')).toBe('espalier-t-822b33ad87c148a0a20a')
  expect(tenantName('ACME/😀')).toMatch(/^t-[0-9a-f]{20}$/)
  expect(apiVersion).toBe('espalier.dev/v1alpha1')
})
