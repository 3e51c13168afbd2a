/**
 * Branches as custom resources, from creation to deletion, with fakes for the nodes and the storage.
 */
import { describe, expect, test } from 'vitest'
import { childNames, labels, teardownFinalizer } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, reasonOf, useBranches } from '../testing/branches.ts'
import { hasCondition, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testConfiguration } from '../testing/installation.ts'

const it = useInstallation()
const { get, when, request, made, idOf, child, isPhase, remove, untilDeleted, leftOf, dataOf, snapshots, under } =
  useBranches(it)

describe('a branch', () => {
  test('has the data of its database, but another address and other passwords, and keeps no snapshot', async () => {
    await it.create('shop')
    const branch = await made('shop-copy', 'shop')
    const database = await it.database('shop')
    expect(branch.metadata.finalizers).toContain(teardownFinalizer)
    expect(branch.status).toMatchObject({
      phase: 'available',
      connectableAt: expect.any(String),
      source: { lsn: '0/2000100', systemIdentifier: database?.status?.volume?.systemIdentifier },
      volume: { systemIdentifier: database?.status?.volume?.systemIdentifier },
      domain: `shop-copy-${(await idOf('shop-copy')).replaceAll('-', '').slice(-8)}.db.test`,
    })
    expect(branch.status?.endpoint?.port).not.toBe(database?.status?.endpoint?.port)
    expect(conditionOf(branch.status, 'Progressing')?.reason).toBe('Completed')
    const claim = await child('PersistentVolumeClaim', 'shop-copy', 'claim')
    expect(claim?.spec?.dataSource).toMatchObject({ kind: 'VolumeSnapshot', name: branch.status?.source?.snapshotName })
    expect(claim?.metadata.ownerReferences).toBeUndefined()
    const [own, its] = [await dataOf('shop-copy'), await it.child('Secret', 'shop', 'credentials')]
    expect(own.closed).toBeUndefined()
    expect(own.roles.app?.passwordVersion).not.toBe(its?.metadata.uid)
    expect(own.roles.app?.passwordVersion).toBe((await child('Secret', 'shop-copy', 'credentials'))?.metadata.uid)
    await eventually(snapshots, found => found.length === 0)
    expect((await it.cluster().list('Backup')).items).toEqual([])
    expect(await it.routesOf(await idOf('shop-copy'))).toMatchObject([{ rules: ['198.51.100.0/24'] }])
    expect(await it.tasksOf('shop-copy')).toMatchObject([
      { spec: { name: 'create-branch', subject: { kind: 'branch' } }, status: { phase: 'succeeded' } },
    ])
    await it.when('shop', found => found.status?.branchCount === 1)
  })

  test('created from a source branch still serves after the source branch is deleted', async () => {
    await it.create('deep')
    await made('deep-1', 'deep')
    const sourceBranch = { name: 'deep-1', id: await idOf('deep-1') }
    await made('deep-2', 'deep', { depth: 2, sourceBranch })
    await remove('deep-1')
    await when('deep-1', isPhase('deleted'))
    const branch = await when('deep-2', isPhase('available'))
    expect(branch.status?.source?.id).toBe(sourceBranch.id)
    expect(await leftOf(await idOf('deep-2'))).not.toEqual([])
    await it.when('deep', found => found.status?.branchCount === 1)
  })

  test('keeps its connectableAt when its Postgres restarts', async () => {
    await it.create('stamped')
    const branch = await made('stamped-1', 'stamped')
    const pod = await child('Pod', 'stamped-1', 'pod')
    await under({ now: () => Date.now() + 3600_000 }, async () => {
      it.workload().refuse(true)
      await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
      await when('stamped-1', found => conditionOf(found.status, 'Ready')?.status === 'False')
      expect((await get('stamped-1'))?.status?.phase).toBe('available')
      it.workload().refuse(false)
      const back = await when('stamped-1', found => conditionOf(found.status, 'Ready')?.status === 'True')
      expect(back.status).toMatchObject({ phase: 'available', connectableAt: branch.status?.connectableAt })
    })
  })

  test('leaves only a record if spec.deletionRequestedAt is set; the operator deletes the record after 30 days', async () => {
    await it.create('going')
    await made('going-1', 'going')
    const id = await idOf('going-1')
    await remove('going-1')
    const record = await when('going-1', found => isPhase('deleted')(found) && found.status?.operation === undefined)
    expect(record.metadata.finalizers ?? []).toEqual([])
    expect(record.status).toMatchObject({ deletedAt: expect.any(String), connectableAt: expect.any(String) })
    expect(await leftOf(id)).toEqual([])
    await eventually(
      () => it.routesOf(id),
      found => found.length === 0,
    )
    expect((await it.tasksOf('going-1')).map(task => [task.spec.name, task.status?.phase]).sort()).toEqual([
      ['create-branch', 'succeeded'],
      ['delete-branch', 'succeeded'],
    ])
    await it.when('going', found => found.status?.branchCount === 0)
    await under({ now: () => Date.now() + 31 * 24 * 3600_000 }, async () => {
      await untilDeleted('going-1')
    })
  })

  test('with an empty allowlist is deleted without waiting for gateways', async () => {
    await it.create('shut')
    await made('shut-1', 'shut', { ipAllowlist: { rules: [] } })
    await remove('shut-1')
    await when('shut-1', found => isPhase('deleted')(found) && found.status?.operation === undefined)
    const reported = (await it.tasksOf('shut-1')).flatMap(({ status }) => status?.messages ?? [])
    expect(reported.map(({ text }) => text)).toContain('done')
    expect(reported.filter(({ text }) => text.includes('gateway'))).toEqual([])
  })

  test('leaves no record if kubectl deletes it', async () => {
    await it.create('direct')
    await made('direct-1', 'direct')
    const id = await idOf('direct-1')
    await it.cluster().delete('Branch', at('direct-1'))
    await untilDeleted('direct-1')
    expect(await leftOf(id)).toEqual([])
    await it.when('direct', found => found.status?.branchCount === 0)
  })

  test('is deleted when it expires', async () => {
    await it.create('timed')
    // The expiry is one hour ahead, so that a slow creation ends before the expiry. `under` starts an operator whose
    // clock is one hour ahead. For this operator every gateway's Lease has expired, so no gateway can acknowledge the
    // closed endpoint. The deletion completes only under the operator with the real clock.
    await made('timed-1', 'timed', { expiresAt: new Date(Date.now() + 3600_000).toISOString() })
    await under({ now: () => Date.now() + 3600_000 }, async () => {
      await when('timed-1', ({ spec }) => spec.deletionRequestedAt !== undefined)
    })
    const record = await when('timed-1', isPhase('deleted'))
    expect(Date.parse(record.spec.deletionRequestedAt ?? '')).toBeGreaterThanOrEqual(
      Math.floor(Date.parse(record.spec.expiresAt ?? '') / 1000) * 1000,
    )
  })
})

describe('a database with branches', () => {
  test('is deleted after its branches if force is set; without force the deletion waits', async () => {
    await it.create('parent')
    await made('parent-1', 'parent')
    await made('parent-2', 'parent', { depth: 2, sourceBranch: { name: 'parent-1', id: await idOf('parent-1') } })
    await it.cluster().delete('ManagedDatabase', at('parent'))
    await it.when('parent', hasCondition('DeletionBlocked', 'HasBranches'))
    expect((await get('parent-1'))?.status?.phase).toBe('available')
    expect((await it.database('parent'))?.status?.blockingBranches).toBe(2)
    await editSpec(it.cluster(), 'parent', spec => spec, { 'espalier.dev/force': 'true' })
    await it.untilDeleted('parent')
    for (const name of ['parent-1', 'parent-2']) expect(await get(name)).toBeUndefined()
    await eventually(snapshots, found => found.length === 0)
  })

  test('is not deleted while it has a branch that was requested just before the deletion', async () => {
    for (const propagation of ['Background', 'Foreground'] as const) {
      const name = `raced${propagation.toLowerCase()}`
      const before = await it.create(name)
      await request(`${name}-1`, name)
      await it.cluster().delete('ManagedDatabase', at(name), { propagation })
      await when(`${name}-1`, isPhase('available'))
      const waiting = await it.when(name, hasCondition('DeletionBlocked', 'HasBranches'))
      expect(conditionOf(waiting.status, 'Ready')?.status).toBe('True')
      expect(waiting.status?.volume).toEqual(before.status?.volume)
      await remove(`${name}-1`)
      await it.untilDeleted(name)
    }
  })

  test('is not deleted until a user deletes its failed branch', async () => {
    await it.create('unlucky')
    it.workload().snapshots.making = { mode: 'failing', message: 'the pool is full' }
    await under({ configuration: { backups: { ...testConfiguration.backups, errorMs: 0 } } }, async () => {
      await request('unlucky-1', 'unlucky')
      await when('unlucky-1', isPhase('failed'))
    })
    await it.when('unlucky', found => found.status?.blockingBranches === 1 && found.status.branchCount === 0)
    await it.cluster().delete('ManagedDatabase', at('unlucky'))
    await it.when('unlucky', hasCondition('DeletionBlocked', 'HasBranches'))
    await it.cluster().delete('Branch', at('unlucky-1'))
    await it.untilDeleted('unlucky')
  })

  test('keeps data, address and passwords if it is orphaned during deletion and recreated with the same id', async () => {
    const before = await it.create('taken')
    const id = await it.idOf('taken')
    await made('taken-1', 'taken')
    const pod = await it.child('Pod', 'taken', 'pod')
    const secret = await it.child('Secret', 'taken', 'credentials')
    await it.cluster().delete('ManagedDatabase', at('taken'))
    await it.when('taken', hasCondition('DeletionBlocked', 'HasBranches'))
    await editSpec(it.cluster(), 'taken', spec => spec, { 'espalier.dev/orphan': 'true' })
    await it.untilDeleted('taken')
    const { apiVersion, kind, spec } = before
    await it.cluster().create('ManagedDatabase', {
      ...{ apiVersion, kind, spec },
      metadata: { ...at('taken'), labels: { [labels.id]: id } },
    })
    const after = await it.when('taken', found => found.status?.phase === 'available')
    expect(after.metadata.uid).not.toBe(before.metadata.uid)
    expect(after.status?.volume).toEqual(before.status?.volume)
    expect(after.status?.endpoint).toEqual(before.status?.endpoint)
    expect((await it.child('Pod', 'taken', 'pod'))?.metadata.uid).toBe(pod?.metadata.uid)
    expect((await it.child('Secret', 'taken', 'credentials'))?.metadata.uid).toBe(secret?.metadata.uid)
    expect((await get('taken-1'))?.status?.phase).toBe('available')
    await it.when('taken', found => found.status?.branchCount === 1)
    await remove('taken-1')
    await when('taken-1', isPhase('deleted'))
    expect((await it.database('taken'))?.metadata.deletionTimestamp).toBeUndefined()
  })

  test('is suspended only after its branch is created', async () => {
    await it.create('resting')
    it.workload().snapshots.making = { mode: 'held' }
    await request('resting-1', 'resting')
    await when('resting-1', found => conditionOf(found.status, 'Progressing')?.reason === 'Copying')
    await eventually(snapshots, found => found.length === 1)
    await editSpec(it.cluster(), 'resting', spec => ({ ...spec, suspended: true }))
    await it.when('resting', found => /^Awaits/.test(conditionOf(found.status, 'Progressing')?.reason ?? ''))
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    await when('resting-1', isPhase('available'))
    await it.when('resting', found => found.status?.phase === 'suspended')
  })
})

describe('a branch that an older operator version refused', () => {
  test('stays failed, does not count against limits, and can be deleted', async () => {
    await it.create('older')
    await it.stopOperator()
    await request('older-1', 'older')
    const found = await get('older-1')
    if (found === undefined) throw new Error('there is no branch')
    const lastTransitionTime = '2026-01-01T00:00:00Z'
    const ready = {
      type: 'Ready',
      status: 'False' as const,
      reason: 'NotAvailable',
      message: 'none',
      lastTransitionTime,
    }
    await it.cluster().replaceStatus('Branch', { ...found, status: { phase: 'failed', conditions: [ready] } })
    await it.startOperator()
    await it.create('other')
    await made('other-1', 'other')
    expect((await get('older-1'))?.status).toEqual({ phase: 'failed', conditions: [ready] })
    await it.when('older', database => database.status?.branchCount === 0)
    await it.cluster().delete('ManagedDatabase', at('older'))
    await it.when('older', hasCondition('DeletionBlocked', 'HasBranches'))
    await it.cluster().delete('Branch', at('older-1'))
    await it.untilDeleted('older')
    expect(await get('older-1')).toBeUndefined()
  })
})

test('a branch keeps its data if it is recreated without its status', async () => {
  await it.create('lost')
  const before = await made('lost-1', 'lost')
  await it.stopOperator()
  const found = await get('lost-1')
  if (found === undefined) throw new Error('there is no branch')
  await it.cluster().replace('Branch', { ...found, metadata: { ...found.metadata, finalizers: [] } })
  await it.cluster().delete('Branch', at('lost-1'))
  const { name, namespace = '', labels: objectLabels } = found.metadata
  await it.cluster().create('Branch', {
    apiVersion: found.apiVersion,
    kind: 'Branch',
    metadata: { name, namespace, ...(objectLabels && { labels: objectLabels }) },
    spec: found.spec,
  })
  await it.startOperator()
  const back = await when('lost-1', isPhase('available'))
  expect(back.status?.volume).toEqual(before.status?.volume)
  expect(back.status?.source).toBeUndefined()
  expect(back.metadata.labels?.[labels.id]).toBe(before.metadata.labels?.[labels.id])
  expect(await it.cluster().get('Backup', at(childNames.prebranch(await idOf('lost-1'))))).toBeUndefined()
})

test('a branch that cannot be created reports why', async () => {
  await it.create('refusing')
  const sourceBranch = { name: 'nothing', id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f' }
  await request('refusing-1', 'refusing', { depth: 2, sourceBranch })
  await request('refusing-2', 'refusing', { pgVersion: '17' })
  await request('refusing-3', 'refusing', { databaseId: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f' })
  const reasons = await Promise.all(
    [1, 2, 3].map(async number => reasonOf(await when(`refusing-${number}`, isPhase('failed')))),
  )
  expect(reasons).toEqual(['SourceMissing', 'SourceMismatch', 'SourceMissing'])
  expect((await it.tasksOf('refusing-1')).map(task => task.spec.name)).toEqual(['create-branch'])
  await eventually(
    () => it.tasksOf('refusing-1'),
    ([task]) => task?.status?.phase === 'failed' && /there is no branch nothing/.test(task.status.error ?? ''),
  )
})
