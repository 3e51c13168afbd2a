/**
 * Faults that make a branch's creation fail, and faults that do not. After a failed creation, only the Branch and its
 * Task remain.
 */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError } from '../../cluster/index.ts'
import { apiVersion, childNames, systemNamespace, tenantName, tenantNamespace } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { shortTimeouts } from '../testing/backups.ts'
import { at, branchDraft, reasonOf, useBranches } from '../testing/branches.ts'
import { useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, giveSnapshots, testConfiguration } from '../testing/installation.ts'

const it = useInstallation()
const { get, when, request, made, idOf, child, isPhase, remove, untilDeleted, leftOf, snapshots, under } =
  useBranches(it)

/** Waits until the creation has failed, the Task has ended, and the finalizer is removed. */
const failed = async (name: string) =>
  when(
    name,
    found =>
      isPhase('failed')(found) &&
      (found.metadata.finalizers ?? []).length === 0 &&
      found.status?.operation === undefined,
  )
const untilNothingRemains = async (name: string) => {
  expect(await leftOf(await idOf(name))).toEqual([])
  expect(await it.routesOf(await idOf(name))).toEqual([])
  await eventually(snapshots, found => found.length === 0)
}
const withDeadline = { configuration: { deadlines: { ...testConfiguration.deadlines, creatingMs: 3_000 } } }

describe('a creation fails and leaves only the Branch', () => {
  test('if its snapshot never becomes ready', async () => {
    await it.create('unready')
    it.workload().snapshots.making = { mode: 'cut' }
    await under(shortTimeouts, async () => {
      await request('unready-1', 'unready')
      const branch = await failed('unready-1')
      expect(reasonOf(branch)).toBe('SnapshotStalled')
      expect(branch.status?.connectableAt).toBeUndefined()
      await untilNothingRemains('unready-1')
    })
    await it.when('unready', found => found.status?.branchCount === 0)
    expect(await it.tasksOf('unready-1')).toMatchObject([
      { status: { phase: 'failed', error: expect.stringContaining('the source could not be copied') } },
    ])
  })

  test('if its snapshot is deleted before it is ready', async () => {
    await it.create('robbed')
    it.workload().snapshots.making = { mode: 'cut' }
    await request('robbed-1', 'robbed')
    const [snapshot] = await eventually(snapshots, ([found]) => found?.status?.creationTime !== undefined)
    await it.cluster().delete('VolumeSnapshot', at(snapshot?.metadata.name ?? ''))
    expect(reasonOf(await failed('robbed-1'))).toBe('SnapshotDeleted')
    await untilNothingRemains('robbed-1')
  })

  test('if its snapshot is deleted after it is ready and before the volume is created', async () => {
    await it.create('late')
    it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource ? 'the pool is full' : undefined)
    await request('late-1', 'late')
    await when('late-1', found => found.status?.source !== undefined)
    const [snapshot] = await snapshots()
    await it.cluster().delete('VolumeSnapshot', at(snapshot?.metadata.name ?? ''))
    expect(reasonOf(await failed('late-1'))).toBe('SnapshotLost')
    await untilNothingRemains('late-1')
  })

  test('if the branch does not serve by its deadline', async () => {
    await it.create('stuck')
    it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource ? 'the pool is full' : undefined)
    await under(withDeadline, async () => {
      await request('stuck-1', 'stuck')
      expect(reasonOf(await failed('stuck-1'))).toBe('DeadlineExceeded')
      await untilNothingRemains('stuck-1')
    })
  })

  test('if a quota refuses its volume; the message of Ready names the quota', async () => {
    await it.create('refused')
    const wrap = (cluster: Cluster): Cluster => ({
      ...cluster,
      create: async (kind, draft) => {
        if (kind === 'PersistentVolumeClaim') throw new ClusterError('Forbidden', 'exceeded quota: storage')
        return cluster.create(kind, draft)
      },
    })
    await under({ ...withDeadline, wrap }, async () => {
      await request('refused-1', 'refused')
      expect(conditionOf((await failed('refused-1')).status, 'Ready')).toMatchObject({
        reason: 'DeadlineExceeded',
        message: expect.stringContaining('exceeded quota: storage'),
      })
      await untilNothingRemains('refused-1')
    })
  })

  test('if a foreign backup has the name of its prebranch backup; the foreign backup is not deleted', async () => {
    await it.create('squatted')
    const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e60'
    const key = at(childNames.prebranch(id))
    const databaseId = await it.idOf('squatted')
    await it.cluster().create('Backup', {
      ...{ apiVersion, kind: 'Backup', metadata: key },
      spec: { databaseName: 'squatted', databaseId, kind: 'hot', purpose: 'prebranch' },
    })
    const draft = branchDraft('squatted-1', { name: 'squatted', id: databaseId }, {}, id)
    await it.cluster().create('Branch', draft)
    const branch = await failed('squatted-1')
    expect(reasonOf(branch)).toBe('NameTaken')
    expect(conditionOf(branch.status, 'Ready')?.message).toContain(key.name)
    expect((await it.cluster().get('Backup', key))?.metadata.deletionTimestamp).toBeUndefined()
    await it.cluster().delete('Backup', key)
    await eventually(
      () => it.cluster().get('Backup', key),
      found => found === undefined,
    )
    await untilNothingRemains('squatted-1')
  })

  test('if snapshots are not atomic', async () => {
    await it.create('torn')
    await giveSnapshots(it.cluster(), false)
    await request('torn-1', 'torn')
    expect(reasonOf(await failed('torn-1'))).toBe('NotAtomic')
    expect(await it.cluster().list('Backup')).toMatchObject({ items: [] })
    await giveSnapshots(it.cluster())
  })

  test('if its source is suspended, or if the branch is deeper than allowed', async () => {
    await it.create('asleep', { suspended: true })
    await request('asleep-1', 'asleep')
    expect(reasonOf(await failed('asleep-1'))).toBe('DatabaseSuspended')
    await it.create('shallow')
    await made('shallow-1', 'shallow')
    const sourceBranch = { name: 'shallow-1', id: await idOf('shallow-1') }
    await under({ configuration: { branches: { highestDepth: 1 } } }, async () => {
      await request('shallow-2', 'shallow', { depth: 2, sourceBranch })
      expect(reasonOf(await failed('shallow-2'))).toBe('TooDeep')
      expect((await get('shallow-1'))?.status?.phase).toBe('available')
    })
  })
})

describe('a branch is created', () => {
  test("even if its source's Postgres is killed during the copy", async () => {
    await it.create('killed')
    it.workload().snapshots.making = { mode: 'cut' }
    await request('killed-1', 'killed')
    await eventually(snapshots, ([found]) => found?.status?.creationTime !== undefined)
    const pod = await it.child('Pod', 'killed', 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    await when('killed-1', isPhase('available'))
  })

  test('even if its source branch is deleted after the copy', async () => {
    await it.create('chain')
    await made('chain-1', 'chain')
    it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource ? 'the pool is full' : undefined)
    await request('chain-2', 'chain', { depth: 2, sourceBranch: { name: 'chain-1', id: await idOf('chain-1') } })
    await when('chain-2', found => found.status?.source !== undefined)
    await remove('chain-1')
    await when('chain-1', isPhase('deleted'))
    it.workload().volumes.unprovisioned = () => undefined
    it.workload().regrow()
    await when('chain-2', isPhase('available'))
  })
})

describe('a branch', () => {
  test.each([
    ['requested', 'held'],
    ['taken', 'cut'],
  ] as const)(
    'leaves no object except its record if it is deleted while its snapshot is being %s',
    async (what, mode) => {
      const name = `early${what}`
      await it.create(name)
      it.workload().snapshots.making = { mode }
      await request(`${name}-1`, name)
      await eventually(snapshots, found => found.length === 1)
      await remove(`${name}-1`)
      const record = await when(`${name}-1`, isPhase('deleted'))
      expect(record.status?.connectableAt).toBeUndefined()
      await untilNothingRemains(`${name}-1`)
    },
  )

  test('leaves nothing if kubectl deletes it while its Postgres starts', async () => {
    await it.create('starting')
    it.workload().refuse(true)
    await request('starting-1', 'starting')
    await eventually(
      () => child('Pod', 'starting-1', 'pod'),
      pod => pod !== undefined,
    )
    const id = await idOf('starting-1')
    await it.cluster().delete('Branch', at('starting-1'))
    it.workload().refuse(false)
    await untilDeleted('starting-1')
    expect(await leftOf(id)).toEqual([])
    expect((await it.tasksOf('starting-1')).map(task => [task.spec.name, task.status?.phase]).sort()).toEqual([
      ['create-branch', 'failed'],
      ['delete-branch', 'succeeded'],
    ])
  })
})

test('a branch gets the phase failed if its volume is lost, and counts against the limit until a user deletes it', async () => {
  await it.create('volume')
  await made('volume-1', 'volume')
  const claim = await child('PersistentVolumeClaim', 'volume-1', 'claim')
  const volume = await it.cluster().get('PersistentVolume', { name: claim?.spec?.volumeName ?? '' })
  await it.stopOperator()
  const pod = await child('Pod', 'volume-1', 'pod')
  await it.deleteClaimByForce(at(claim?.metadata.name ?? ''))
  await it.cluster().delete('PersistentVolume', { name: volume?.metadata.name ?? '' })
  await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
  await it.startOperator()
  const branch = await when('volume-1', isPhase('failed'))
  expect(reasonOf(branch)).toBe('VolumeLost')
  expect(branch.status?.connectableAt).toBeDefined()
  await it.when('volume', found => found.status?.branchCount === 1)
  await remove('volume-1')
  await when('volume-1', isPhase('deleted'))
})

test('a branch leaves no route if it is deleted without its finalizer', async () => {
  await it.create('forced')
  const branch = await made('forced-1', 'forced')
  const route = { namespace: systemNamespace, name: `route-${branch.status?.endpoint?.port}` }
  await it.stopOperator()
  const { finalizers: _, ...metadata } = branch.metadata
  await it.cluster().replace('Branch', { ...branch, metadata })
  await it.cluster().delete('Branch', at('forced-1'))
  expect(await it.cluster().get('ConfigMap', route)).toBeDefined()
  await it.startOperator()
  await eventually(
    () => it.cluster().get('ConfigMap', route),
    found => found === undefined,
  )
})

describe("branches beyond a tenant's limit", () => {
  test('are refused; deleted branches and failed creations do not count against the limit', async () => {
    const tenantId = 'limited'
    const namespace = tenantNamespace(tenantId)
    await it.cluster().create('Tenant', {
      apiVersion,
      kind: 'Tenant',
      metadata: { name: tenantName(tenantId) },
      spec: {
        tenantId,
        plan: { name: 'standard' },
        limits: { databases: 10, branchesPerDatabase: 1 },
        revokedMembers: [],
      },
    })
    await eventually(
      () => it.cluster().get('Namespace', { name: namespace }),
      found => found !== undefined,
    )
    const id = '6e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
    const inNamespace = <T extends { metadata: object }>(object: T): T => ({
      ...object,
      metadata: { ...object.metadata, namespace },
    })
    await it.cluster().create('ManagedDatabase', inNamespace(databaseDraft('narrow', {}, id)))
    await eventually(
      () => it.cluster().get('ManagedDatabase', { namespace, name: 'narrow' }),
      found => found?.status?.phase === 'available',
    )
    const branch = (name: string) => it.cluster().get('Branch', { namespace, name })
    const requestBranch = (name: string, branchId: string) =>
      it.cluster().create('Branch', inNamespace(branchDraft(name, { name: 'narrow', id }, {}, branchId)))
    await requestBranch('narrow-1', '71111111-3f0e-4b43-9c0f-0a1b2c3d4e5f')
    await requestBranch('narrow-2', '72222222-3f0e-4b43-9c0f-0a1b2c3d4e5f')
    const phaseOf = (name: string, phase: string) =>
      eventually(
        () => branch(name),
        found => found?.status?.phase === phase,
      )
    await phaseOf('narrow-1', 'available')
    expect(reasonOf(await phaseOf('narrow-2', 'failed'))).toBe('LimitReached')
    await it.cluster().delete('Branch', { namespace, name: 'narrow-1' })
    await eventually(
      () => branch('narrow-1'),
      found => found === undefined,
    )
    await requestBranch('narrow-3', '73333333-3f0e-4b43-9c0f-0a1b2c3d4e5f')
    await phaseOf('narrow-3', 'available')
  })
})
