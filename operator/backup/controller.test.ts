/**
 * Backups requested with kubectl or by the API, from creation to deletion, with fakes for the nodes and the storage.
 */
import { describe, expect, test } from 'vitest'
import { labels, teardownFinalizer } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, reasonOf, shortTimeouts, useBackups } from '../testing/backups.ts'
import { useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually } from '../testing/installation.ts'

const it = useInstallation()
const { get, when, request, ended, taken, snapshotOf, untilDeleted, dataOf, restarted } = useBackups(it)

describe('a backup', () => {
  test('is a checkpoint and then a snapshot, and records what it contains', async () => {
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

  test('requested by a user has a Task, which ends as the backup does; a scheduled one has none', async () => {
    await it.create('tasked')
    await request('tasked-1', 'tasked')
    await request('tasked-2', 'tasked', { purpose: 'scheduled' })
    await when('tasked-1', ({ status }) => status?.phase === 'completed' && status.taskId === undefined)
    await ended('tasked-2')
    expect(await it.tasksOf('tasked-1')).toMatchObject([
      { spec: { name: 'backup-managed', subject: { kind: 'backup' } }, status: { phase: 'succeeded' } },
    ])
    expect(await it.tasksOf('tasked-2')).toEqual([])
  })

  test('waits for another backup of its database, while an allowlist is changed', async () => {
    await it.create('queued')
    const gate = Promise.withResolvers<void>()
    const data = await dataOf('queued')
    data.checkpoint = gate.promise
    await request('queued-1', 'queued')
    await when('queued-1', ({ status }) => status?.phase === 'running')
    await request('queued-2', 'queued')
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

  test('waits for a database that temporarily does not serve, up to the timeout', async () => {
    await it.create('restarting')
    const pod = await it.child('Pod', 'restarting', 'pod')
    it.workload().postgres.stop(pod?.status?.podIP ?? '')
    await it.workload().restart(at(pod?.metadata.name ?? ''))
    await it.when('restarting', found => conditionOf(found.status, 'Ready')?.status === 'False')
    await restarted(shortTimeouts)
    await request('restarting-1', 'restarting')
    expect(reasonOf(await ended('restarting-1'))).toBe('DatabaseNotServing')
    await restarted()
  })
})

describe('continues', () => {
  test('if Postgres is killed after the checkpoint: the snapshot is still of one instant', async () => {
    await it.create('later')
    it.workload().snapshots.making = { mode: 'held' }
    await request('later-1', 'later')
    await when('later-1', ({ status }) => status?.snapshotName !== undefined)
    const pod = await it.child('Pod', 'later', 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    expect((await ended('later-1'))?.status?.phase).toBe('completed')
  })

  test('if the database is deleted with its backups kept, once the snapshot is taken', async () => {
    await it.create('leaving', { deletion: { keepBackups: true } })
    it.workload().snapshots.making = { mode: 'cut' }
    await request('leaving-1', 'leaving')
    await when('leaving-1', ({ status }) => status?.cutAt !== undefined)
    await it.cluster().delete('ManagedDatabase', at('leaving'))
    await it.untilDeleted('leaving')
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    expect((await ended('leaving-1'))?.status?.phase).toBe('completed')
  })
})

describe('a completed backup', () => {
  test('whose snapshot a user deletes is no longer a restore point', async () => {
    await it.create('lost')
    await taken('lost-1', 'lost')
    await when('lost-1', ({ status }) => status?.taskId === undefined)
    const { name = '' } = (await snapshotOf('lost-1'))?.metadata ?? {}
    await it.cluster().delete('VolumeSnapshot', at(name))
    const backup = await when('lost-1', ({ status }) => status?.phase === 'failed')
    expect(reasonOf(backup)).toBe('SnapshotLost')
    expect(backup?.status).toMatchObject({ startLsn: '0/2000028', error: expect.any(String) })
  })

  test('whose id a user changes keeps its snapshot, and is complete again with its previous id', async () => {
    await it.create('relabelled')
    const made = await taken('relabelled-1', 'relabelled')
    const relabel = async (id: string) => {
      const found = await get('relabelled-1')
      if (found === undefined) throw new Error('the object is missing')
      const { metadata } = found
      await it.cluster().replace('Backup', {
        ...found,
        metadata: { ...metadata, labels: { ...metadata.labels, [labels.id]: id } },
      })
      await restarted()
      await new Promise(resolve => setTimeout(resolve, 500))
    }
    const snapshot = await snapshotOf('relabelled-1')
    await relabel(crypto.randomUUID())
    expect((await get('relabelled-1'))?.status?.phase).toBe('completed')
    await relabel(made?.metadata.labels?.[labels.id] ?? '')
    expect((await snapshotOf('relabelled-1'))?.metadata).toMatchObject({ uid: snapshot?.metadata.uid })
    expect((await snapshotOf('relabelled-1'))?.metadata.deletionTimestamp).toBeUndefined()
    expect((await get('relabelled-1'))?.status?.phase).toBe('completed')
  })

  test("whose snapshot is labelled as another owner's is no restore point, not even after the label is corrected", async () => {
    await it.create('marked')
    await taken('marked-1', 'marked')
    const setOwner = async (owner: string | undefined) => {
      const found = await snapshotOf('marked-1')
      if (found === undefined) throw new Error('the object is missing')
      const { metadata } = found
      const annotations = { ...metadata.annotations, 'espalier.dev/owner': owner ?? '' }
      await it.cluster().replace('VolumeSnapshot', { ...found, metadata: { ...metadata, annotations } })
      return metadata
    }
    const { uid, annotations } = await setOwner('somebody/else')
    await restarted()
    await when('marked-1', ({ status }) => status?.phase === 'failed')
    await setOwner(annotations?.['espalier.dev/owner'])
    await restarted()
    await new Promise(resolve => setTimeout(resolve, 500))
    expect((await snapshotOf('marked-1'))?.metadata).toMatchObject({ uid })
    expect((await snapshotOf('marked-1'))?.metadata.deletionTimestamp).toBeUndefined()
    await it.cluster().delete('Backup', at('marked-1'))
    await untilDeleted('marked-1')
    expect((await it.cluster().list('VolumeSnapshot')).items.map(({ metadata }) => metadata.uid)).not.toContain(uid)
  })

  test('that is recreated without its status reports again what its snapshot contains', async () => {
    await it.create('back')
    const before = await taken('back-1', 'back')
    await it.stopOperator()
    const { name, namespace = '', labels: objectLabels } = before?.metadata ?? { name: '' }
    const found = await get('back-1')
    if (found === undefined) throw new Error('there is no backup')
    await it.cluster().replace('Backup', { ...found, metadata: { ...found.metadata, finalizers: [] } })
    await it.cluster().delete('Backup', { namespace, name })
    await it.cluster().create('Backup', {
      apiVersion: found.apiVersion,
      kind: 'Backup',
      metadata: { name, namespace, ...(objectLabels && { labels: objectLabels }) },
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

test('that is recreated without status and snapshot is failed, and not taken again under its old name', async () => {
  await it.create('relic')
  const before = await taken('relic-1', 'relic')
  if (before === undefined) throw new Error('there is no backup')
  await it.cluster().delete('Backup', at('relic-1'))
  await untilDeleted('relic-1')
  const { labels: objectLabels = {}, annotations = {}, finalizers = [] } = before.metadata
  const checkpoints = [...it.workload().postgres.checkpoints.values()]
  await it.cluster().create('Backup', {
    apiVersion: before.apiVersion,
    kind: 'Backup',
    metadata: { ...at('relic-1'), labels: objectLabels, annotations, finalizers },
    spec: before.spec,
  })
  const after = await ended('relic-1')
  expect([after?.status?.phase, reasonOf(after)]).toEqual(['failed', 'PutBack'])
  expect(after?.status?.error).toMatch(/^the Backup was recreated, but no snapshot of it exists/)
  expect(await snapshotOf('relic-1')).toBeUndefined()
  expect([...it.workload().postgres.checkpoints.values()]).toEqual(checkpoints)
  await it.cluster().delete('Backup', at('relic-1'))
  await untilDeleted('relic-1')
})

test('that an earlier version refused is not changed, and can be deleted', async () => {
  await it.create('former')
  await it.stopOperator()
  await request('former-1', 'former')
  const found = await get('former-1')
  if (found === undefined) throw new Error('there is no backup')
  const refused = { type: 'Ready', status: 'False' as const, reason: 'NotAvailable', message: 'no' }
  const status = { phase: 'failed' as const, conditions: [{ ...refused, lastTransitionTime: '2026-01-01T00:00:00Z' }] }
  await it.cluster().replaceStatus('Backup', { ...found, status })
  await it.startOperator()
  await taken('former-2', 'former')
  expect(await get('former-1')).toMatchObject({
    status,
    metadata: expect.not.objectContaining({ finalizers: expect.anything() }),
  })
  await it.cluster().delete('Backup', at('former-1'))
  expect(await get('former-1')).toBeUndefined()
})

describe('deleting a backup', () => {
  test('deletes its snapshot, and waits until that is deleted', async () => {
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
    await untilDeleted('cleared-1')
    expect(it.workload().snapshots.images.has(snapshot?.metadata.uid ?? '')).toBe(false)
  })

  test('that is running ends it, and its Task', async () => {
    await it.create('broken')
    const data = await dataOf('broken')
    data.checkpoint = new Promise(() => {})
    await request('broken-1', 'broken')
    await when('broken-1', ({ status }) => status?.phase === 'running')
    await it.cluster().delete('Backup', at('broken-1'))
    await untilDeleted('broken-1')
    const [task] = await eventually(
      () => it.tasksOf('broken-1'),
      tasks => tasks[0]?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({
      phase: 'failed',
      error: 'the backup was deleted before the operation was complete',
    })
    delete data.checkpoint
    await taken('broken-2', 'broken')
  })
})
