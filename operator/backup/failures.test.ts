/** Backups that cannot be taken, or fail: each reports why, and leaves no snapshot. */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, KindNotServedError } from '../../cluster/index.ts'
import { annotations, type Backup, childNames, labels } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { childLabels, ownerAnnotations, ownerOf } from '../objects/ownership.ts'
import { PostgresError } from '../postgres/administrator.ts'
import { at, reasonOf, shortTimeouts, useBackups } from '../testing/backups.ts'
import { useInstallation } from '../testing/fixture.ts'
import { backupDraft, eventually, giveSnapshots } from '../testing/installation.ts'

const it = useInstallation()
const { when, request, ended, snapshotOf, untilDeleted, noSnapshot, dataOf, restarted } = useBackups(it)

describe('is refused with the reason,', () => {
  test.each<[string, Partial<Backup['spec']>, string]>([
    ['a durable one', { kind: 'durable' }, 'DurableTierOff'],
    ['one of another id', { databaseId: '00000000-0000-4000-8000-000000000000' }, 'DatabaseMissing'],
    ['one of no database', { databaseName: 'nobody' }, 'DatabaseMissing'],
  ])('%s', async (what, spec, reason) => {
    const name = what.replaceAll(' ', '')
    await it.create(name)
    await request(`${name}-1`, name, spec)
    const backup = await ended(`${name}-1`)
    expect([backup?.status?.phase, reasonOf(backup)]).toEqual(['failed', reason])
    expect(backup?.status?.error).toBe(conditionOf(backup?.status, 'Ready')?.message)
  })

  test('of a suspended database', async () => {
    await it.create('asleep', { suspended: true })
    await request('asleep-1', 'asleep')
    expect(reasonOf(await ended('asleep-1'))).toBe('DatabaseSuspended')
    const [task] = await eventually(
      () => it.tasksOf('asleep-1'),
      tasks => tasks[0]?.status?.finishedAt !== undefined,
    )
    expect(task?.status).toMatchObject({ phase: 'failed', error: expect.stringContaining('resume it first') })
  })

  test('if snapshots are not of one instant', async () => {
    await it.create('torn')
    await giveSnapshots(it.cluster(), false)
    await eventually(
      async () => (await it.cluster().get('Region', { name: 'here' }))?.status?.conditions,
      conditions => conditions?.some(({ reason }) => reason === 'NotAtomic') === true,
    )
    await request('torn-1', 'torn')
    const backup = await ended('torn-1')
    await giveSnapshots(it.cluster())
    expect(reasonOf(backup)).toBe('NotAtomic')
    expect(backup?.status?.error).toMatch(/class fast .* can lose data/)
    await eventually(
      async () => (await it.cluster().get('Region', { name: 'here' }))?.status?.conditions,
      conditions => conditions?.some(({ reason }) => reason === 'Available') === true,
    )
  })

  test('if the cluster does not support snapshots; the operator starts, and databases are created', async () => {
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
    await request('early-1', 'early')
    expect(reasonOf(await ended('early-1'))).toBe('SnapshotsNotServed')
    await it.cluster().delete('Backup', at('early-1'))
    await untilDeleted('early-1')
    await restarted()
  })
})

test('a backup whose snapshot the operator is not allowed to delete reports that until it is', async () => {
  let isRefused = true
  const refusing = (cluster: Cluster): Cluster => ({
    ...cluster,
    delete: async (kind, key, options) => {
      if (kind === 'VolumeSnapshot' && isRefused) throw new ClusterError('Forbidden', 'the operator may not')
      return cluster.delete(kind, key, options)
    },
  })
  await restarted({ wrap: refusing })
  await it.create('kept')
  await request('kept-1', 'kept')
  await ended('kept-1')
  await it.cluster().delete('Backup', at('kept-1'))
  const reported = await when('kept-1', ({ status }) => conditionOf(status, 'Progressing')?.reason === 'Refused')
  expect(conditionOf(reported?.status, 'Progressing')?.message).toBe('the operator may not')
  isRefused = false
  await untilDeleted('kept-1')
  await restarted()
})

test('a backup to which the operator is not allowed to add its finalizer reports that until it is, and is taken then', async () => {
  let isRefused = true
  const refusing = (cluster: Cluster): Cluster => ({
    ...cluster,
    replace: async (kind, object) => {
      if (kind === 'Backup' && isRefused) throw new ClusterError('Forbidden', 'the operator may not')
      return cluster.replace(kind, object)
    },
  })
  await restarted({ wrap: refusing })
  await it.create('unheld')
  await request('unheld-1', 'unheld')
  const reported = await when('unheld-1', ({ status }) => conditionOf(status, 'Progressing')?.reason === 'Refused')
  expect(conditionOf(reported?.status, 'Progressing')?.message).toBe('the operator may not')
  expect(reported?.status?.phase).toBeUndefined()
  isRefused = false
  const done = await ended('unheld-1')
  expect([done?.status?.phase, done?.metadata.annotations?.[annotations.firstUid]]).toEqual([
    ...['completed', done?.metadata.uid],
  ])
  await restarted()
})

test('a snapshot that a late write creates for a deleted backup is deleted if it was only for one branch', async () => {
  const made = async (name: string, backup: string, objectLabels: Record<string, string>) => {
    const owner = ownerOf({ kind: 'Backup', metadata: { ...at(backup), uid: 'gone' } }, 'some-database')
    const metadata = {
      ...at(name),
      labels: { ...childLabels(owner, 'snapshot'), [labels.id]: crypto.randomUUID() },
      annotations: { ...ownerAnnotations(owner), ...objectLabels },
    }
    const spec = { source: { persistentVolumeClaimName: 'some-claim' } }
    await it
      .cluster()
      .create('VolumeSnapshot', { apiVersion: 'snapshot.storage.k8s.io/v1', kind: 'VolumeSnapshot', metadata, spec })
  }
  const found = (name: string) => it.cluster().get('VolumeSnapshot', at(name))
  await made('kept-copy', 'scheduled-gone', {})
  await made('late-copy', 'prebranch-gone', { [annotations.singleUse]: 'true' })
  await eventually(
    () => found('late-copy'),
    copy => copy === undefined,
  )
  expect((await found('kept-copy'))?.metadata.deletionTimestamp).toBeUndefined()
  await it.cluster().delete('VolumeSnapshot', at('kept-copy'))
})

test('a Postgres that is too slow for the checkpoint gets another request, and nothing fails', async () => {
  await it.create('busy')
  const data = await dataOf('busy')
  const checkpointCount = () => [...it.workload().postgres.checkpoints.values()].reduce((sum, count) => sum + count, 0)
  const before = checkpointCount()
  data.checkpoint = Promise.reject(new PostgresError('timeout', 'timeout expired'))
  data.checkpoint.catch(() => {})
  await request('busy-1', 'busy')
  await eventually(checkpointCount, count => count === before + 1)
  delete data.checkpoint
  expect((await ended('busy-1'))?.status?.phase).toBe('completed')
  expect(checkpointCount()).toBe(before + 2)
})

test.each(['answers', 'does not answer any more'])(
  'Postgres is killed during the checkpoint, and %s: the next one gets another request, and the backup completes',
  async how => {
    const name = `killed${how.length}`
    await it.create(name)
    const gate = Promise.withResolvers<void>()
    const data = await dataOf(name)
    data.checkpoint = gate.promise
    await request(`${name}-1`, name)
    await when(`${name}-1`, ({ status }) => status?.phase === 'running')
    const pod = await it.child('Pod', name, 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    it.workload().postgres.stop(pod?.status?.podIP ?? '')
    delete data.checkpoint
    if (how === 'answers') gate.resolve()
    const backup = await ended(`${name}-1`)
    expect(backup?.status?.phase).toBe('completed')
    expect(await snapshotOf(`${name}-1`)).toBeDefined()
    gate.resolve()
  },
)

describe('fails, reports why and leaves no snapshot, if', () => {
  test('the checkpoint fails', async () => {
    await it.create('stuck')
    const data = await dataOf('stuck')
    data.checkpoint = Promise.reject(new Error('could not write to file "base/5/1259"'))
    data.checkpoint.catch(() => {})
    await request('stuck-1', 'stuck')
    const backup = await ended('stuck-1')
    expect(reasonOf(backup)).toBe('CheckpointFailed')
    expect(backup?.status?.error).toContain('could not write to file')
    expect(await snapshotOf('stuck-1')).toBeUndefined()
  })

  test.each<[string, ReturnType<typeof it.workload>['snapshots']['making'], string, RegExp]>([
    ['full', { mode: 'failing', message: 'the pool is full' }, 'SnapshotFailed', /the pool is full$/],
    ['held', { mode: 'held' }, 'SnapshotStalled', /not taken after/],
    ['slow', { mode: 'cut' }, 'SnapshotStalled', /taken, but not ready after/],
  ])('the storage does not create it: %s', async (name, making, reason, message) => {
    await it.create(name)
    await restarted(shortTimeouts)
    it.workload().snapshots.making = making
    await request(`${name}-1`, name)
    const backup = await ended(`${name}-1`)
    expect([backup?.status?.phase, reasonOf(backup)]).toEqual(['failed', reason])
    expect(backup?.status?.error).toMatch(message)
    await noSnapshot(`${name}-1`)
    await restarted()
    expect([...it.workload().snapshots.images.values()]).not.toContain(
      (await it.child('PersistentVolumeClaim', name, 'claim'))?.metadata.uid,
    )
  })

  test('another claim replaces its source claim under the same name', async () => {
    await it.create('swapped')
    it.workload().snapshots.making = { mode: 'held' }
    await request('swapped-1', 'swapped')
    await when('swapped-1', ({ status }) => status?.snapshotName !== undefined)
    await it.stopOperator()
    const claim = await it.child('PersistentVolumeClaim', 'swapped', 'claim')
    if (claim === undefined) throw new Error('there is no claim')
    const { name, namespace = '', labels: objectLabels = {}, annotations: notes = {} } = claim.metadata
    await it.deleteClaimByForce({ namespace, name })
    await it.cluster().create('PersistentVolumeClaim', {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace, labels: objectLabels, annotations: notes },
      spec: { accessModes: ['ReadWriteOncePod'], resources: { requests: { storage: '1Gi' } } },
    })
    await it.startOperator()
    expect(reasonOf(await ended('swapped-1'))).toBe('OtherData')
    await noSnapshot('swapped-1')
  })

  test('another claim already has that name when the snapshot is to be requested', async () => {
    await it.create('stolen')
    const name = (await it.child('PersistentVolumeClaim', 'stolen', 'claim'))?.metadata.name
    const made: string[] = []
    const thief = (cluster: Cluster): Cluster => ({
      ...cluster,
      get: async (kind, key) => {
        const found = await cluster.get(kind, key)
        const isIt = kind === 'PersistentVolumeClaim' && key.name === name && found !== undefined
        return isIt ? { ...found, metadata: { ...found.metadata, uid: 'another' } } : found
      },
      create: (kind, draft) => {
        made.push(kind)
        return cluster.create(kind, draft)
      },
    })
    await restarted({ wrap: thief })
    await request('stolen-1', 'stolen')
    expect(reasonOf(await ended('stolen-1'))).toBe('OtherData')
    expect(made).not.toContain('VolumeSnapshot')
    await restarted()
  })

  test('the database is deleted before the snapshot is taken', async () => {
    await it.create('hasty', { deletion: { keepBackups: true } })
    it.workload().snapshots.making = { mode: 'held' }
    await request('hasty-1', 'hasty')
    await when('hasty-1', ({ status }) => status?.snapshotName !== undefined)
    await it.cluster().delete('ManagedDatabase', at('hasty'))
    await it.untilDeleted('hasty')
    expect(reasonOf(await ended('hasty-1'))).toBe('DatabaseMissing')
    await noSnapshot('hasty-1')
  })

  test('another client deletes the snapshot before it is ready', async () => {
    await it.create('robbed')
    it.workload().snapshots.making = { mode: 'held' }
    await request('robbed-1', 'robbed')
    await when('robbed-1', ({ status }) => status?.snapshotName !== undefined)
    const { name = '' } = (await snapshotOf('robbed-1'))?.metadata ?? {}
    await it.cluster().delete('VolumeSnapshot', at(name))
    expect(reasonOf(await ended('robbed-1'))).toBe('SnapshotDeleted')
  })

  test('the name of its snapshot is taken; the existing object is not changed', async () => {
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
    await untilDeleted('squatted-1')
    expect(await it.cluster().get('VolumeSnapshot', at(childNames.snapshot(id)))).toBeDefined()
  })
})
