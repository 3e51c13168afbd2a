/** The life of a backup, as kubectl and the API ask for it, with fakes for what the nodes and the storage do. */
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type Cluster, KindNotServedError } from '../../cluster/index.ts'
import { type Backup, childNames, labels, teardownFinalizer } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { useInstallation } from '../testing/fixture.ts'
import {
  backupDraft,
  editSpec,
  eventually,
  giveSnapshots,
  testConfiguration,
  testNamespace,
} from '../testing/installation.ts'

/** Waits for nothing that does not come at once. */
const impatient = {
  configuration: { backups: { ...testConfiguration.backups, errorMs: 0, cutMs: 1, readyMs: 1, servingMs: 1 } },
}
const it = useInstallation()
const at = (name: string) => ({ namespace: testNamespace, name })

beforeAll(() => giveSnapshots(it.cluster()))
afterEach(() => {
  const { snapshots } = it.workload()
  snapshots.making = { mode: 'making' }
  snapshots.deleting = 'deleting'
  it.workload().resnapshot()
})

const get = (name: string) => it.cluster().get('Backup', at(name))
const when = (name: string, holds: (backup: Backup) => boolean) =>
  eventually(
    () => get(name),
    found => found !== undefined && holds(found),
  )
const ended = (name: string) => when(name, ({ status }) => status?.finishedAt !== undefined)
const ask = async (name: string, database: string, spec: Partial<Backup['spec']> = {}) => {
  await it.cluster().create('Backup', backupDraft(name, { name: database, id: await it.idOf(database) }, spec))
}
const taken = async (name: string, database: string) => {
  await ask(name, database)
  return when(name, ({ status }) => status?.phase === 'completed')
}
const snapshotOf = async (name: string) => {
  const id = (await get(name))?.metadata.labels?.[labels.id] ?? ''
  return it.cluster().get('VolumeSnapshot', at(childNames.snapshot(id)))
}
const noSnapshot = (name: string) =>
  eventually(
    () => snapshotOf(name),
    found => found === undefined,
  )
const dataOf = async (database: string) => {
  const claim = await it.child('PersistentVolumeClaim', database, 'claim')
  const data = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
  if (data === undefined) throw new Error('there are no data')
  return data
}
const reasonOf = (backup: Backup | undefined) => conditionOf(backup?.status, 'Ready')?.reason
const restarted = async (options: Parameters<typeof it.startOperator>[0]) => {
  await it.stopOperator()
  await it.startOperator(options)
}

describe('a backup', () => {
  test('is a checkpoint and then a snapshot, and says what it holds', async () => {
    await it.create('plain')
    const backup = await taken('plain-1', 'plain')
    const { systemIdentifier, claim } = (await it.database('plain'))?.status?.volume ?? {}
    const snapshot = await snapshotOf('plain-1')
    expect(backup?.status).toMatchObject({
      phase: 'completed',
      snapshotName: snapshot?.metadata.name,
      cutAt: snapshot?.status?.creationTime,
      startLsn: '0/2000028',
      endLsn: '0/2000100',
      timeline: 1,
      systemIdentifier,
      sizeBytes: 2 ** 30,
    })
    expect([...it.workload().postgres.checkpoints.values()]).toEqual([1])
    expect(snapshot?.spec).toEqual({
      volumeSnapshotClassName: 'fast',
      source: { persistentVolumeClaimName: claim },
    })
    expect(snapshot?.metadata.ownerReferences).toBeUndefined()
    expect(snapshot?.metadata.labels).toMatchObject({ [labels.database]: await it.idOf('plain') })
    expect(backup?.metadata.finalizers).toContain(teardownFinalizer)
  })

  test('that somebody asked for has a Task, which ends as it does; one of a schedule has none', async () => {
    await it.create('tasked')
    await ask('tasked-1', 'tasked')
    await ask('tasked-2', 'tasked', { purpose: 'scheduled' })
    await when('tasked-1', ({ status }) => status?.phase === 'completed' && status.taskId === undefined)
    await ended('tasked-2')
    expect(await it.tasksOf('tasked-1')).toMatchObject([
      { spec: { name: 'backup-managed', subject: { kind: 'backup' } }, status: { phase: 'succeeded' } },
    ])
    expect(await it.tasksOf('tasked-2')).toEqual([])
  })

  test('takes its turn after another of its database, and an allowlist changes meanwhile', async () => {
    await it.create('queued')
    const gate = Promise.withResolvers<void>()
    const data = await dataOf('queued')
    data.checkpoint = gate.promise
    await ask('queued-1', 'queued')
    await when('queued-1', ({ status }) => status?.phase === 'running')
    await ask('queued-2', 'queued')
    const second = await when('queued-2', ({ status }) => status?.phase === 'pending')
    expect(conditionOf(second?.status, 'Progressing')).toMatchObject({
      reason: 'Queued',
      message: expect.stringContaining('queued-1'),
    })
    await editSpec(it.cluster(), 'queued', spec => ({ ...spec, ipAllowlist: { rules: [{ cidr: '203.0.113.0/24' }] } }))
    const changed = await it.when(
      'queued',
      ({ status, metadata }) => status?.phase === 'available' && status.observedGeneration === metadata.generation,
    )
    expect(changed.status?.operation).toBeUndefined()
    expect((await get('queued-1'))?.status?.phase).toBe('running')
    gate.resolve()
    await when('queued-2', ({ status }) => status?.phase === 'completed')
    expect((await get('queued-1'))?.status?.phase).toBe('completed')
  })

  test('waits for a database that does not serve for a moment, and no longer than said', async () => {
    await it.create('restarting')
    const pod = await it.child('Pod', 'restarting', 'pod')
    it.workload().postgres.stop(pod?.status?.podIP ?? '')
    await it.workload().restart(at(pod?.metadata.name ?? ''))
    await it.when('restarting', found => conditionOf(found.status, 'Ready')?.status === 'False')
    await restarted(impatient)
    await ask('restarting-1', 'restarting')
    expect(reasonOf(await ended('restarting-1'))).toBe('DatabaseNotServing')
    await restarted(undefined)
  })
})

describe('is refused, and says why,', () => {
  test.each<[string, Partial<Backup['spec']>, string]>([
    ['a durable one', { kind: 'durable' }, 'NotAvailable'],
    ['one of another id', { databaseId: '00000000-0000-4000-8000-000000000000' }, 'DatabaseMissing'],
    ['one of no database', { databaseName: 'nobody' }, 'DatabaseMissing'],
  ])('%s', async (what, spec, reason) => {
    const name = what.replaceAll(' ', '')
    await it.create(name)
    await ask(`${name}-1`, name, spec)
    const backup = await ended(`${name}-1`)
    expect([backup?.status?.phase, reasonOf(backup)]).toEqual(['failed', reason])
    expect(backup?.status?.error).toBe(conditionOf(backup?.status, 'Ready')?.message)
  })

  test('of a suspended database', async () => {
    await it.create('asleep', { suspended: true })
    await ask('asleep-1', 'asleep')
    expect(reasonOf(await ended('asleep-1'))).toBe('DatabaseSuspended')
    const [task] = await eventually(
      () => it.tasksOf('asleep-1'),
      tasks => tasks[0]?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({ phase: 'failed', error: expect.stringContaining('resume it first') })
  })

  test('where snapshots are not of one instant', async () => {
    await it.create('torn')
    await giveSnapshots(it.cluster(), false)
    await eventually(
      async () => (await it.cluster().get('Region', { name: 'here' }))?.status?.conditions,
      conditions => conditions?.some(({ reason }) => reason === 'NotAtomic') === true,
    )
    await ask('torn-1', 'torn')
    const backup = await ended('torn-1')
    await giveSnapshots(it.cluster())
    expect(reasonOf(backup)).toBe('NotAtomic')
    expect(backup?.status?.error).toMatch(/class fast .* can lose data/)
    await eventually(
      async () => (await it.cluster().get('Region', { name: 'here' }))?.status?.conditions,
      conditions => conditions?.some(({ reason }) => reason === 'Available') === true,
    )
  })

  test('where the cluster has no snapshots at all; the operator starts, and databases are made', async () => {
    const refuse = async () => {
      throw new KindNotServedError('the API server does not serve this kind')
    }
    const without = (cluster: Cluster): Cluster => ({
      ...cluster,
      list: (kind, options) => (kind === 'VolumeSnapshot' ? refuse() : cluster.list(kind, options)),
      get: (kind, key) => (kind === 'VolumeSnapshot' ? refuse() : cluster.get(kind, key)),
    })
    await restarted({ wrap: without })
    await it.create('early')
    await ask('early-1', 'early')
    expect(reasonOf(await ended('early-1'))).toBe('SnapshotsNotServed')
    await it.cluster().delete('Backup', at('early-1'))
    await eventually(
      () => get('early-1'),
      found => found === undefined,
    )
    await restarted(undefined)
  })
})

describe('fails, says why and leaves no snapshot, where', () => {
  test('the checkpoint fails', async () => {
    await it.create('stuck')
    const data = await dataOf('stuck')
    data.checkpoint = Promise.reject(new Error('could not write to file "base/5/1259"'))
    data.checkpoint.catch(() => {})
    await ask('stuck-1', 'stuck')
    const backup = await ended('stuck-1')
    expect(reasonOf(backup)).toBe('CheckpointFailed')
    expect(backup?.status?.error).toContain('could not write to file')
    expect(await snapshotOf('stuck-1')).toBeUndefined()
  })

  test('Postgres is killed during the checkpoint', async () => {
    await it.create('killed')
    const gate = Promise.withResolvers<void>()
    const data = await dataOf('killed')
    data.checkpoint = gate.promise
    await ask('killed-1', 'killed')
    await when('killed-1', ({ status }) => status?.phase === 'running')
    const pod = await it.child('Pod', 'killed', 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    await it.when('killed', found => conditionOf(found.status, 'Ready')?.status === 'True')
    it.workload().postgres.stop(pod?.status?.podIP ?? '')
    gate.resolve()
    const backup = await ended('killed-1')
    expect(reasonOf(backup)).toBe('CheckpointFailed')
    expect(await snapshotOf('killed-1')).toBeUndefined()
    delete data.checkpoint
    await taken('killed-2', 'killed')
  })

  test.each<[string, ReturnType<typeof it.workload>['snapshots']['making'], string, RegExp]>([
    ['full', { mode: 'failing', message: 'the pool is full' }, 'SnapshotFailed', /the pool is full$/],
    ['held', { mode: 'held' }, 'SnapshotStalled', /not cut after/],
    ['slow', { mode: 'cut' }, 'SnapshotStalled', /cut, and not ready after/],
  ])('the storage does not make it: %s', async (name, making, reason, message) => {
    await it.create(name)
    await restarted(impatient)
    it.workload().snapshots.making = making
    await ask(`${name}-1`, name)
    const backup = await ended(`${name}-1`)
    expect([backup?.status?.phase, reasonOf(backup)]).toEqual(['failed', reason])
    expect(backup?.status?.error).toMatch(message)
    await noSnapshot(`${name}-1`)
    await restarted(undefined)
    expect([...it.workload().snapshots.images.values()]).not.toContain(
      (await it.child('PersistentVolumeClaim', name, 'claim'))?.metadata.uid,
    )
  })

  test('somebody deletes the snapshot before it is ready', async () => {
    await it.create('robbed')
    it.workload().snapshots.making = { mode: 'held' }
    await ask('robbed-1', 'robbed')
    await when('robbed-1', ({ status }) => status?.snapshotName !== undefined)
    const { name = '' } = (await snapshotOf('robbed-1'))?.metadata ?? {}
    await it.cluster().delete('VolumeSnapshot', at(name))
    expect(reasonOf(await ended('robbed-1'))).toBe('SnapshotDeleted')
  })

  test('the name of its snapshot is taken, and what has it is left alone', async () => {
    await it.create('squatted')
    const id = '7a1d9a52-3f0e-4b43-9c0f-00000000000f'
    await it.cluster().create('VolumeSnapshot', {
      apiVersion: 'snapshot.storage.k8s.io/v1',
      kind: 'VolumeSnapshot',
      metadata: at(childNames.snapshot(id)),
      spec: { source: { persistentVolumeClaimName: 'theirs' } },
    })
    const database = { name: 'squatted', id: await it.idOf('squatted') }
    await it.cluster().create('Backup', backupDraft('squatted-1', database, {}, id))
    expect(reasonOf(await ended('squatted-1'))).toBe('NameTaken')
    await it.cluster().delete('Backup', at('squatted-1'))
    await eventually(
      () => get('squatted-1'),
      found => found === undefined,
    )
    expect(await it.cluster().get('VolumeSnapshot', at(childNames.snapshot(id)))).toBeDefined()
  })
})

describe('a completed backup', () => {
  test('whose snapshot somebody deletes is no restore point any more', async () => {
    await it.create('lost')
    await taken('lost-1', 'lost')
    await when('lost-1', ({ status }) => status?.taskId === undefined)
    const { name = '' } = (await snapshotOf('lost-1'))?.metadata ?? {}
    await it.cluster().delete('VolumeSnapshot', at(name))
    const backup = await when('lost-1', ({ status }) => status?.phase === 'failed')
    expect(reasonOf(backup)).toBe('SnapshotLost')
    expect(backup?.status).toMatchObject({ startLsn: '0/2000028', error: expect.any(String) })
  })

  test('that is put back without its status says again what its snapshot does', async () => {
    await it.create('back')
    const before = await taken('back-1', 'back')
    await it.stopOperator()
    const { name, namespace = '', labels: marks } = before?.metadata ?? { name: '' }
    const found = await get('back-1')
    if (found === undefined) throw new Error('there is no backup')
    await it.cluster().replace('Backup', { ...found, metadata: { ...found.metadata, finalizers: [] } })
    await it.cluster().delete('Backup', { namespace, name })
    await it.cluster().create('Backup', {
      apiVersion: found.apiVersion,
      kind: 'Backup',
      metadata: { name, namespace, ...(marks && { labels: marks }) },
      spec: found.spec,
    })
    const checkpoints = [...it.workload().postgres.checkpoints.values()]
    await it.startOperator()
    const after = await when('back-1', ({ status }) => status?.phase === 'completed')
    const { startLsn, systemIdentifier, snapshotName } = before?.status ?? {}
    expect(after?.status).toMatchObject({ startLsn, systemIdentifier, snapshotName })
    expect([...it.workload().postgres.checkpoints.values()]).toEqual(checkpoints)
  })
})

describe('deleting a backup', () => {
  test('takes its snapshot away, and waits until that is gone', async () => {
    await it.create('cleared')
    await taken('cleared-1', 'cleared')
    const snapshot = await snapshotOf('cleared-1')
    it.workload().snapshots.deleting = 'held'
    await it.cluster().delete('Backup', at('cleared-1'))
    await eventually(
      () => snapshotOf('cleared-1'),
      found => found?.metadata.deletionTimestamp !== undefined,
    )
    expect((await get('cleared-1'))?.metadata.finalizers).toContain(teardownFinalizer)
    it.workload().snapshots.deleting = 'deleting'
    it.workload().resnapshot()
    await eventually(
      () => get('cleared-1'),
      found => found === undefined,
    )
    expect(it.workload().snapshots.images.has(snapshot?.metadata.uid ?? '')).toBe(false)
  })

  test('that is under way ends it, and its Task', async () => {
    await it.create('broken')
    const data = await dataOf('broken')
    data.checkpoint = new Promise(() => {})
    await ask('broken-1', 'broken')
    await when('broken-1', ({ status }) => status?.phase === 'running')
    await it.cluster().delete('Backup', at('broken-1'))
    await eventually(
      () => get('broken-1'),
      found => found === undefined,
    )
    const [task] = await eventually(
      () => it.tasksOf('broken-1'),
      tasks => tasks[0]?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({ phase: 'failed', error: 'the backup was deleted before this was done' })
    delete data.checkpoint
    await taken('broken-2', 'broken')
  })
})
