/** The life of a restore, as the API and kubectl ask for it, with fakes for what the nodes and the storage do. */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError } from '../../cluster/index.ts'
import {
  annotations,
  apiVersion,
  type Condition,
  childNames,
  labels,
  type Restore,
  renderAskedRestore,
  visiblePhase,
} from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, impatient, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testConfiguration } from '../testing/installation.ts'
import { createReads } from '../testing/reads.ts'

const it = useInstallation()
const { taken, dataOf, get: backupOf, snapshotOf, gone, restarted } = useBackups(it)

const restore = (name: string) => it.cluster().get('Restore', at(name))
const when = (name: string, holds: (found: Restore) => boolean) =>
  eventually(
    () => restore(name),
    found => found !== undefined && holds(found),
  )
const hasMessage = (message: string) => (condition: Condition) => condition.message.includes(message)
const reasonOf = (found: Restore | undefined) => conditionOf(found?.status, 'Ready')?.reason

/** As kubectl does. */
const ask = async (name: string, database: string, backupName: string, databaseId?: string) =>
  it.cluster().create('Restore', {
    apiVersion,
    kind: 'Restore',
    metadata: at(name),
    spec: { databaseName: database, databaseId: databaseId ?? (await it.idOf(database)), target: { backupName } },
  })
/** As the API does: by one write of the database. */
const askByAnnotation = (name: string, database: string, backupName: string, discardPrevious?: true) =>
  editSpec(it.cluster(), database, spec => spec, {
    [annotations.restore]: renderAskedRestore({ name, backupName, discardPrevious }),
  })
const settled = (name: string, phase = 'available') =>
  it.when(
    name,
    found => isPhase(phase)(found) && visiblePhase(found) === phase && found.status?.operation === undefined,
  )

/** A database, a backup of it as it was, and what was done to it since. */
async function mistaken(name: string, more = {}): Promise<void> {
  await it.create(name)
  ;(await dataOf(name)).content = 'good'
  await taken(`${name}-1`, name)
  ;(await dataOf(name)).content = 'bad'
  if (Object.keys(more).length > 0) await editSpec(it.cluster(), name, spec => ({ ...spec, ...more }))
}
/** What stands on the volume that serves now. */
const servingOf = async (name: string) => {
  const { uid = '' } = (await it.database(name))?.status?.volume ?? {}
  return it.workload().postgres.data.get(uid)
}
const contentOf = async (name: string) => (await servingOf(name))?.content

describe('a restore', () => {
  test('is not over before clients come by the Service', async () => {
    await it.create('routed')
    // It has logged in already; what is copied from it has not.
    ;(await dataOf('routed')).isUnrouted = true
    await taken('routed-1', 'routed')
    await askByAnnotation('routed-back', 'routed', 'routed-1')
    const isRefused = /does not lead to it yet: connect ECONNREFUSED/
    const found = await it.when('routed', ({ status }) => isRefused.test(conditionOf(status, 'Ready')?.message ?? ''))
    expect([conditionOf(found.status, 'Ready')?.reason, visiblePhase(found)]).toEqual(['NotReachable', 'restoring'])
    expect((await restore('routed-back'))?.status?.phase).toBe('running')
    const copy = await servingOf('routed')
    if (copy === undefined) throw new Error('there are no data')
    copy.isUnrouted = false
    await settled('routed')
    expect((await restore('routed-back'))?.status?.phase).toBe('completed')
  })

  test('leads clients to the copy once it lets them in, and not before', async () => {
    await mistaken('led')
    const claimName = childNames.claim(await it.idOf('led'), 2)
    const seen: { incarnation: string | undefined; isClosed: boolean }[] = []
    const stopped = new AbortController()
    const { resourceVersion } = await it.cluster().list('Service')
    const watching = (async () => {
      for await (const event of it.cluster().watch('Service', { resourceVersion, signal: stopped.signal })) {
        if (event.type === 'BOOKMARK') continue
        const claim = await it.cluster().get('PersistentVolumeClaim', at(claimName))
        const copy = it.workload().postgres.data.get(claim?.metadata.uid ?? '')
        const incarnation = event.object.spec?.selector?.[labels.incarnation]
        seen.push({ incarnation, isClosed: copy === undefined || copy.closed !== undefined })
      }
    })()
    await askByAnnotation('led-back', 'led', 'led-1')
    await settled('led')
    stopped.abort()
    await watching
    expect(seen).toEqual([{ incarnation: '2', isClosed: false }])
  })

  test('puts the data of the backup in the place of the present ones, and keeps all else', async () => {
    await mistaken('plain')
    const before = await it.database('plain')
    const id = await it.idOf('plain')
    const asked = await askByAnnotation('plain-back', 'plain', 'plain-1')
    expect(visiblePhase(asked)).toBe('restoring')
    const done = await when('plain-back', ({ status }) => status?.phase === 'completed')
    const after = await settled('plain')
    expect(await contentOf('plain')).toBe('good')
    expect(after.status).toMatchObject({
      incarnation: 2,
      endpoint: before?.status?.endpoint,
      domain: before?.status?.domain,
    })
    expect(after.status?.volume?.claim).toBe(childNames.claim(id, 2))
    expect(after.status?.volume?.systemIdentifier).toBe(before?.status?.volume?.systemIdentifier)
    expect(after.metadata.labels).toEqual(before?.metadata.labels)
    const service = await it.child('Service', 'plain', 'service')
    expect(service?.spec?.selector?.[labels.incarnation]).toBe('2')

    // What was is in the list, and so is what is now.
    const { anchor = '', after: latter = '' } = done?.status ?? {}
    expect(done?.status?.anchorRefused).toBeUndefined()
    const snapshot = await snapshotOf(anchor)
    expect((await backupOf(anchor))?.spec.purpose).toBe('prerestore')
    expect(it.workload().snapshots.images.get(snapshot?.metadata.uid ?? '')).toBe(before?.status?.volume?.uid)
    const last = await eventually(
      () => backupOf(latter),
      found => found?.status?.phase === 'completed',
    )
    expect(last?.spec.purpose).toBe('postrestore')

    // Of the old volume the claim is left, and nothing that runs.
    const old = { statefulSet: childNames.statefulSet(id, 1), configuration: childNames.configuration(id, 1) }
    await eventually(
      async () => [
        await it.cluster().get('StatefulSet', at(old.statefulSet)),
        await it.cluster().get('ConfigMap', at(old.configuration)),
      ],
      found => found.every(object => object === undefined),
    )
    expect((await it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 1))))?.metadata.uid).toBe(
      before?.status?.volume?.uid,
    )
    const tasks = await it.tasksOf('plain')
    expect(tasks.filter(({ spec }) => spec.name === 'restore-managed')).toMatchObject([
      { status: { phase: 'succeeded' } },
    ])
  })

  test('asked for by kubectl is the same, one after the other, back to the anchor as well', async () => {
    await mistaken('hand')
    await Promise.all([ask('hand-a', 'hand', 'hand-1'), ask('hand-b', 'hand', 'hand-1')])
    const first = await when('hand-a', ({ status }) => status?.finishedAt !== undefined)
    const second = await when('hand-b', ({ status }) => status?.finishedAt !== undefined)
    expect([first?.status?.phase, second?.status?.phase]).toEqual(['completed', 'completed'])
    await settled('hand')
    expect(await contentOf('hand')).toBe('good')
    const { anchor = '' } = [first, second].find(found => found?.status?.previous?.incarnation === 1)?.status ?? {}
    await ask('hand-c', 'hand', anchor)
    await when('hand-c', ({ status }) => status?.phase === 'completed')
    const after = await settled('hand')
    expect(await contentOf('hand')).toBe('bad')
    expect(after.status?.incarnation).toBe(4)
  })

  test('of a suspended database leaves it suspended, with the data of the backup', async () => {
    await mistaken('asleep')
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: true }))
    await settled('asleep', 'suspended')
    await askByAnnotation('asleep-back', 'asleep', 'asleep-1')
    await when('asleep-back', ({ status }) => status?.phase === 'completed')
    await settled('asleep', 'suspended')
    expect(await contentOf('asleep')).toBe('good')
    await editSpec(it.cluster(), 'asleep', spec => ({ ...spec, suspended: false }))
    await settled('asleep')
  })

  test('brings back a database whose volume is gone, only where somebody agrees that there is no anchor', async () => {
    await mistaken('gone')
    const { claim = '' } = (await it.database('gone'))?.status?.volume ?? {}
    await it.deleteClaimByForce(at(claim))
    const pod = await it.child('Pod', 'gone', 'pod')
    await it.cluster().delete('Pod', at(pod?.metadata.name ?? ''))
    const volume = (await it.database('gone'))?.status?.volume?.volumeName
    await it.cluster().delete('PersistentVolume', { name: volume ?? '' })
    await it.when('gone', isPhase('failed'))
    await askByAnnotation('gone-no', 'gone', 'gone-1')
    const refused = await when('gone-no', ({ status }) => status?.finishedAt !== undefined)
    expect([refused?.status?.phase, reasonOf(refused)]).toEqual(['failed', 'NoBackupPossible'])
    expect(refused?.status?.error).toMatch(/not there any more\. To restore without a backup .* discard_previous: true/)
    await it.when('gone', found => isPhase('failed')(found) && found.status?.operation === undefined)
    await askByAnnotation('gone-back', 'gone', 'gone-1', true)
    const done = await when('gone-back', ({ status }) => status?.phase === 'completed')
    await settled('gone')
    expect(done?.status?.anchorRefused).toMatch(/not there any more/)
    expect(await contentOf('gone')).toBe('good')
  })

  test('is of a database that was resized since, which keeps its size', async () => {
    await mistaken('grown', { size: { name: 'large', version: 1 } })
    await it.when('grown', found => found.status?.size?.name === 'large' && found.status.operation === undefined)
    await askByAnnotation('grown-back', 'grown', 'grown-1')
    await when('grown-back', ({ status }) => status?.phase === 'completed')
    const { status } = await settled('grown')
    expect(status?.size?.name).toBe('large')
    const claim = await it.cluster().get('PersistentVolumeClaim', at(status?.volume?.claim ?? ''))
    expect(claim?.spec?.resources?.requests?.storage).toBe('2Gi')
  })
})

describe('a restore that fails leaves the database as it was, where', () => {
  test.each<[string, (name: string) => Promise<unknown>, string]>([
    ['there is no such backup', name => ask(`${name}-back`, name, 'nothing'), 'BackupMissing'],
    ['it is another database', name => ask(`${name}-back`, name, `${name}-1`, crypto.randomUUID()), 'DatabaseMissing'],
  ])('%s', async (what, act, reason) => {
    const name = what.replaceAll(' ', '').slice(0, 20)
    await mistaken(name)
    await act(name)
    const ended = await when(`${name}-back`, ({ status }) => status?.finishedAt !== undefined)
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', reason])
    await settled(name)
    expect(await contentOf(name)).toBe('bad')
  })

  test('the backup is of another database', async () => {
    await mistaken('mine')
    await mistaken('yours')
    await ask('mine-back', 'mine', 'yours-1')
    const ended = await when('mine-back', ({ status }) => status?.finishedAt !== undefined)
    expect(reasonOf(ended)).toBe('OtherDatabase')
  })

  test('no volume can be made of the snapshot in time; what was made goes', async () => {
    await mistaken('stuck')
    const id = await it.idOf('stuck')
    await restarted({ configuration: { deadlines: { ...testConfiguration.deadlines, restoringMs: 500 } } })
    it.workload().volumes.unprovisioned = claim =>
      claim.spec?.dataSource === undefined ? undefined : 'the pool is full'
    await askByAnnotation('stuck-back', 'stuck', 'stuck-1')
    const ended = await when('stuck-back', ({ status }) => status?.finishedAt !== undefined)
    it.workload().volumes.unprovisioned = () => undefined
    expect(reasonOf(ended)).toBe('DeadlineExceeded')
    await settled('stuck')
    expect(await contentOf('stuck')).toBe('bad')
    await eventually(
      () => it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 2))),
      found => found === undefined,
    )
    const [task] = (await it.tasksOf('stuck')).filter(({ spec }) => spec.name === 'restore-managed')
    expect(task?.status).toMatchObject({ phase: 'failed' })
    await restarted()
  })
})

test('a backup that somebody else made under the name of its anchor is neither taken for it nor touched', async () => {
  await mistaken('squatted')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await it.stopOperator()
  await ask('squatted-back', 'squatted', 'squatted-1')
  const { uid = '' } = (await restore('squatted-back'))?.metadata ?? {}
  const name = `squatted-back-${uid.slice(0, 8)}-prerestore`
  const databaseId = await it.idOf('squatted')
  await it.cluster().create('Backup', {
    ...{ apiVersion, kind: 'Backup', metadata: at(name) },
    spec: { databaseName: 'squatted', databaseId, kind: 'hot', purpose: 'prerestore' },
  })
  await it.startOperator()
  const found = await when('squatted-back', ({ status }) => status?.phase === 'failed')
  expect(found?.status).toMatchObject({ error: expect.stringContaining(`the backup ${name} is in the way`) })
  expect([reasonOf(found), found?.status?.anchor]).toEqual(['NameTaken', undefined])
  await settled('squatted')
  expect(await contentOf('squatted')).toBe('bad')
  expect((await backupOf(name))?.metadata.deletionTimestamp).toBeUndefined()
  it.workload().volumes.unprovisioned = () => undefined
})

describe('where the old data cannot be backed up', () => {
  const failing = { mode: 'failing', message: 'the pool is full' } as const

  test('the restore fails, and the database goes on with them', async () => {
    await mistaken('lone')
    const old = (await it.database('lone'))?.status?.volume
    await restarted(impatient)
    it.workload().snapshots.making = failing
    await askByAnnotation('lone-back', 'lone', 'lone-1')
    const ended = await when('lone-back', ({ status }) => status?.finishedAt !== undefined)
    it.workload().snapshots.making = { mode: 'making' }
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', 'BackupFailed'])
    expect(ended?.status?.error).toMatch(/could not be backed up first: .*the pool is full.*discard_previous: true/)
    expect((await settled('lone')).status?.volume).toEqual(old)
    expect(await contentOf('lone')).toBe('bad')
    await restarted()
  })

  test('and somebody agrees, it goes on, and they are deleted once it has completed', async () => {
    await mistaken('agreed')
    const old = (await it.database('agreed'))?.status?.volume
    await restarted(impatient)
    it.workload().snapshots.making = failing
    await askByAnnotation('agreed-back', 'agreed', 'agreed-1', true)
    const done = await when('agreed-back', ({ status }) => status?.phase === 'completed')
    it.workload().snapshots.making = { mode: 'making' }
    expect(done?.status?.anchorRefused).toMatch(/the pool is full/)
    expect(done?.spec.discardPrevious).toBe(true)
    await settled('agreed')
    expect(await contentOf('agreed')).toBe('good')
    await claimGone(old?.claim)
    await it.when('agreed', ({ status }) => status?.previous === undefined)
    await restarted()
  })
})

const claimGone = (name = '') =>
  eventually(
    () => it.cluster().get('PersistentVolumeClaim', at(name)),
    found => found === undefined,
  )
const later = { now: () => Date.now() + 25 * 3600_000 }
const previousOf = (name: string, reason: string) =>
  it.when(name, ({ status }) => status?.previous?.[0]?.reason === reason)

describe('the volume of before', () => {
  test('is counted, outlives the Restore, and is deleted after a day', async () => {
    await mistaken('kept')
    const old = (await it.database('kept'))?.status
    await askByAnnotation('kept-back', 'kept', 'kept-1')
    const done = await when('kept-back', ({ status }) => status?.phase === 'completed')
    await settled('kept')
    await it.cluster().delete('Restore', at('kept-back'))
    await eventually(
      () => restore('kept-back'),
      found => found === undefined,
    )
    const { status } = await previousOf('kept', 'KeptForADay')
    const { switchedAt, finishedAt, anchor } = done?.status ?? {}
    expect(status?.previous).toMatchObject([
      {
        ...{ incarnation: 1, claim: old?.volume?.claim, uid: old?.volume?.uid, backup: anchor },
        ...{ restore: 'kept-back', restoredAt: finishedAt, bytes: expect.any(Number) },
        keptUntil: timestamp(Date.parse(status?.previous?.[0]?.replacedAt ?? '') + 24 * 3600_000),
      },
    ])
    expect(Math.abs(Date.parse(status?.previous?.[0]?.replacedAt ?? '') - Date.parse(switchedAt ?? ''))).toBeLessThan(
      5_000,
    )
    expect(conditionOf(status, 'PreviousVolumesKept')).toMatchObject({ status: 'True', reason: 'Kept' })
    await restarted(later)
    await claimGone(old?.volume?.claim)
    await it.when('kept', found => found.status?.previous === undefined)
    expect(conditionOf((await it.database('kept'))?.status, 'PreviousVolumesKept')).toBeUndefined()
    expect(await contentOf('kept')).toBe('good')
    await restarted()
  })

  test('stays without its backup until somebody agrees', async () => {
    await mistaken('bare')
    const old = (await it.database('bare'))?.status?.volume
    await askByAnnotation('bare-back', 'bare', 'bare-1')
    const done = await when('bare-back', ({ status }) => status?.phase === 'completed')
    await settled('bare')
    await it.cluster().delete('Backup', at(done?.status?.anchor ?? ''))
    await restarted(later)
    const { status } = await previousOf('bare', 'NoBackup')
    expect(conditionOf(status, 'PreviousVolumesKept')?.reason).toBe('AwaitsAgreement')
    expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    await editSpec(it.cluster(), 'bare', spec => spec, { [annotations.discardPrevious]: `other, ${old?.uid}` })
    await claimGone(old?.claim)
    await restarted()
  })

  test('stays after a restore whose data never served, until somebody agrees', async () => {
    await mistaken('never')
    const old = (await it.database('never'))?.status?.volume
    await restarted({ configuration: { deadlines: { ...testConfiguration.deadlines, modifyingMs: 1 } } })
    // Taken while it serves: a backup waits for a database that clients cannot reach.
    await taken('never-2', 'never')
    ;(await dataOf('never')).isUnrouted = true
    await askByAnnotation('never-back', 'never', 'never-2')
    const ended = await when('never-back', ({ status }) => status?.finishedAt !== undefined)
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', 'NotServing'])
    await restarted(later)
    await previousOf('never', 'RestoreFailed')
    expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    await editSpec(it.cluster(), 'never', spec => spec, { [annotations.discardPrevious]: old?.uid ?? '' })
    await claimGone(old?.claim)
    await restarted()
  })

  test.each<[string, boolean, string]>([
    ['found by its Restore, and then deleted', false, 'KeptForADay'],
    ['kept until somebody agrees where that is gone as well', true, 'RestoreUnknown'],
  ])('of an earlier release is %s', async (what, isForgotten, reason) => {
    const name = isForgotten ? 'unknown' : 'earlier'
    await mistaken(name)
    const old = (await it.database(name))?.status?.volume
    await askByAnnotation(`${name}-back`, name, `${name}-1`)
    const done = await when(`${name}-back`, ({ status }) => status?.phase === 'completed')
    await settled(name)
    await it.stopOperator()
    const database = await it.database(name)
    if (database === undefined || done === undefined) throw new Error('there is nothing to change')
    const { previous: _, ...status } = database.status ?? {}
    await it.cluster().replaceStatus('ManagedDatabase', { ...database, status })
    if (isForgotten) {
      const found = await restore(`${name}-back`)
      await it
        .cluster()
        .replace('Restore', { ...done, metadata: { ...done.metadata, ...found?.metadata, finalizers: [] } })
      await it.cluster().delete('Restore', at(`${name}-back`))
    }
    await it.startOperator()
    const found = await previousOf(name, reason)
    expect(found.status?.previous, what).toMatchObject([{ incarnation: 1, claim: old?.claim, uid: old?.uid }])
    await restarted(later)
    if (!isForgotten) await claimGone(old?.claim)
    else {
      await previousOf(name, reason)
      expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    }
    expect(await contentOf(name)).toBe('good')
    await restarted()
  })
})

test('what the cluster refuses is said at once, by the restore and by its task, and a restore goes on once it is let', async () => {
  await mistaken('narrow')
  const quota = await it.cluster().create('ResourceQuota', {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: at('narrow'),
    spec: { hard: { persistentvolumeclaims: '0' } },
  })
  await askByAnnotation('narrow-back', 'narrow', 'narrow-1')
  const isSaid = (message = '') =>
    /the quota has no space for the restored volume.*exceeded quota: narrow/.test(message)
  const found = await when('narrow-back', ({ status }) => isSaid(conditionOf(status, 'Progressing')?.message))
  expect(conditionOf(found?.status, 'Progressing')?.reason).toBe('QuotaExceeded')
  await eventually(
    () => it.tasksOf('narrow'),
    tasks =>
      tasks.some(
        ({ spec, status }) => spec.name === 'restore-managed' && status?.messages?.some(({ text }) => isSaid(text)),
      ),
  )
  expect(await contentOf('narrow')).toBe('bad')
  await it.cluster().delete('ResourceQuota', quota.metadata)
  await when('narrow-back', ({ status }) => status?.phase === 'completed')
})

test('one that failed before leaves alone what a later one makes, and the old claim of that', async () => {
  await mistaken('again')
  const id = await it.idOf('again')
  const old = (await it.database('again'))?.status?.volume
  const claim = (incarnation: number) =>
    it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, incarnation)))
  await ask('again-a', 'again', 'again-1')
  it.workload().volumes.unprovisioned = of => (of.spec?.dataSource === undefined ? undefined : 'not yet')
  await eventually(
    () => claim(2),
    found => found !== undefined,
  )
  await it.cluster().delete('VolumeSnapshot', at((await snapshotOf('again-1'))?.metadata.name ?? ''))
  const failed = await when('again-a', ({ status }) => status?.phase === 'failed')
  it.workload().volumes.unprovisioned = () => undefined
  await settled('again')
  await eventually(
    () => claim(2),
    found => found === undefined,
  )

  if (failed !== undefined)
    await it.cluster().replaceStatus('Restore', {
      ...failed,
      status: { ...failed.status, finishedAt: timestamp(Date.now() - 25 * 3600_000) },
    })

  ;(await dataOf('again')).content = 'good'
  await taken('again-2', 'again')
  ;(await dataOf('again')).content = 'bad'
  it.workload().snapshots.making = { mode: 'held' }
  await askByAnnotation('again-b', 'again', 'again-2')
  const { status } = (await when('again-b', found => found.status?.fencedAt !== undefined)) ?? {}
  const made = await claim(status?.incarnation ?? 0)
  const set = () => it.cluster().get('StatefulSet', at(childNames.statefulSet(id, status?.incarnation ?? 0)))
  const started = await set()
  // Each is looked at anew: what the failed one would leave is read by its pass alone.
  const reads = createReads()
  const passOf = (incarnation = 0) => reads.of('StatefulSet', childNames.statefulSet(id, incarnation))
  const again = passOf(failed?.status?.incarnation)
  await restarted({ wrap: reads.cluster })
  await again
  // The other one is under way, and is looked at time and again.
  await reads.of('Restore', 'again-b', 2)
  expect((await set())?.metadata.uid).toBe(started?.metadata.uid)
  it.workload().snapshots.making = { mode: 'making' }
  it.workload().resnapshot()
  await when('again-b', found => found.status?.phase === 'completed')
  expect((await settled('again')).status?.volume?.uid).toBe(made?.metadata.uid)
  expect(await contentOf('again')).toBe('good')
  const both = Promise.all([passOf(failed?.status?.incarnation), passOf(status?.previous?.incarnation)])
  await restarted({ wrap: reads.cluster })
  await both
  await reads.quiet()
  expect((await claim(1))?.metadata.uid).toBe(old?.uid)
  await restarted()
})

test('one that is asked for again under the name of one that is gone has an anchor of its own', async () => {
  await mistaken('same')
  await ask('same-back', 'same', 'same-1')
  const first = await when('same-back', ({ status }) => status?.phase === 'completed')
  const { volume } = (await settled('same')).status ?? {}
  await it.cluster().delete('Restore', at('same-back'))
  await eventually(
    () => restore('same-back'),
    found => found === undefined,
  )
  await ask('same-back', 'same', 'same-1')
  const second = await when(
    'same-back',
    ({ metadata, status }) => metadata.uid !== first?.metadata.uid && status?.phase === 'completed',
  )
  const snapshot = await snapshotOf(second?.status?.anchor ?? '')
  expect(it.workload().snapshots.images.get(snapshot?.metadata.uid ?? '')).toBe(volume?.uid)
  expect(second?.status?.after).not.toBe(first?.status?.after)
})

test('a backup that is deleted before the volume is there stays until it is', async () => {
  await mistaken('early')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await askByAnnotation('early-back', 'early', 'early-1')
  await when('early-back', ({ status }) => status?.phase === 'running')
  await it.cluster().delete('Backup', at('early-1'))
  await eventually(
    () => backupOf('early-1'),
    found => conditionOf(found?.status, 'Progressing')?.reason === 'InUse',
  )
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()
  await when('early-back', ({ status }) => status?.phase === 'completed')
  await settled('early')
  expect(await contentOf('early')).toBe('good')
  await gone('early-1')
})

test('a snapshot that is deleted before the volume is there ends it, and the database serves on', async () => {
  await mistaken('robbed')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await askByAnnotation('robbed-back', 'robbed', 'robbed-1')
  await eventually(
    async () => it.cluster().get('PersistentVolumeClaim', at(childNames.claim(await it.idOf('robbed'), 2))),
    found => found !== undefined,
  )
  const { name = '' } = (await snapshotOf('robbed-1'))?.metadata ?? {}
  await it.cluster().delete('VolumeSnapshot', at(name))
  const ended = await when('robbed-back', ({ status }) => status?.finishedAt !== undefined)
  it.workload().volumes.unprovisioned = () => undefined
  expect(ended?.status?.phase).toBe('failed')
  expect(['SnapshotLost', 'BackupNotCompleted']).toContain(reasonOf(ended))
  await settled('robbed')
  expect(await contentOf('robbed')).toBe('bad')
})

describe('the old Postgres', () => {
  const podKey = async (name: string) => at(childNames.pod(await it.idOf(name), 1))
  const pod = async (name: string) => it.cluster().get('Pod', await podKey(name))

  test('is not replaced before the controller of its StatefulSet has seen that it is to stop', async () => {
    await mistaken('lagging')
    const reads = createReads()
    await restarted({ wrap: reads.cluster })
    it.workload().lag(true)
    await askByAnnotation('lagging-back', 'lagging', 'lagging-1')
    const { status } = (await when('lagging-back', found => found.status?.fencedAt !== undefined)) ?? {}
    await eventually(
      () => pod('lagging'),
      found => found === undefined,
    )
    await reads.of('Restore', 'lagging-back', 3)
    const found = await restore('lagging-back')
    expect([found?.status?.phase, found?.status?.switchedAt]).toEqual(['running', undefined])
    expect((await backupOf(status?.anchor ?? ''))?.status?.phase).toBe('pending')
    it.workload().lag(false)
    await when('lagging-back', ({ status }) => status?.phase === 'completed')
    await settled('lagging')
    expect(await contentOf('lagging')).toBe('good')
  })

  test('cannot be started while it is copied and replaced, by whoever acts on old news', async () => {
    await mistaken('stale')
    it.workload().snapshots.making = { mode: 'held' }
    await askByAnnotation('stale-back', 'stale', 'stale-1')
    const { anchor = '' } = (await when('stale-back', found => found.status?.fencedAt !== undefined))?.status ?? {}
    await eventually(
      () => backupOf(anchor),
      found => found?.status?.phase === 'running',
    )
    const draft = { apiVersion: 'v1', kind: 'Pod', metadata: await podKey('stale') } as const
    await expect(
      it.cluster().create('Pod', { ...draft, spec: { containers: [{ name: 'postgres', image: 'x' }] } }),
    ).rejects.toMatchObject({ reason: 'AlreadyExists' })
    it.workload().snapshots.making = { mode: 'making' }
    it.workload().resnapshot()
    await when('stale-back', ({ status }) => status?.phase === 'completed')
    await eventually(
      () => pod('stale'),
      found => found === undefined,
    )
    await settled('stale')
    expect(await contentOf('stale')).toBe('good')
  })

  test('starts again where the restore fails after it was stopped, once the cluster lets its lock be deleted', async () => {
    let isRefused = false
    let isCreationRefused = true
    const refusing = (cluster: Cluster): Cluster => ({
      ...cluster,
      create: async (kind, draft) => {
        if (kind === 'Restore' && isCreationRefused) throw new ClusterError('Forbidden', 'no Restores today')
        return cluster.create(kind, draft)
      },
      delete: async (kind, key, options) => {
        if (kind === 'Pod' && isRefused) throw new ClusterError('Forbidden', 'the operator may not')
        return cluster.delete(kind, key, options)
      },
    })
    await restarted({ wrap: refusing })
    await mistaken('freed')
    it.workload().snapshots.making = { mode: 'held' }
    await askByAnnotation('freed-back', 'freed', 'freed-1')
    await it.when('freed', ({ status }) => status?.conditions?.some(hasMessage('no Restores today')) === true)
    isCreationRefused = false
    const { anchor = '' } = (await when('freed-back', found => found.status?.fencedAt !== undefined))?.status ?? {}
    await eventually(
      () => backupOf(anchor),
      found => found?.status?.phase === 'running',
    )
    isRefused = true
    await it.cluster().delete('Restore', at('freed-back'))
    const told = await when('freed-back', found => conditionOf(found.status, 'Progressing')?.reason === 'Refused')
    expect(conditionOf(told?.status, 'Progressing')?.message).toBe('the operator may not')
    isRefused = false
    await eventually(
      () => restore('freed-back'),
      found => found === undefined,
    )
    await it.when('freed', isPhase('available'))
    expect(await contentOf('freed')).toBe('bad')
    expect((await pod('freed'))?.status?.phase).toBe('Running')
    await restarted()
  })
})

test('a pod that is killed in the middle, the old one or the new one, changes nothing', async () => {
  await mistaken('killed')
  const id = await it.idOf('killed')
  it.workload().snapshots.making = { mode: 'held' }
  await askByAnnotation('killed-back', 'killed', 'killed-1')
  await when('killed-back', ({ status }) => status?.fencedAt !== undefined)
  await it.cluster().delete('Pod', at(childNames.pod(id, 2)))
  it.workload().snapshots.making = { mode: 'making' }
  it.workload().resnapshot()
  await when('killed-back', ({ status }) => status?.phase === 'completed')
  await settled('killed')
  expect(await contentOf('killed')).toBe('good')
})

test('a database that is deleted in the middle goes, with all that was made', async () => {
  await mistaken('leaving')
  const id = await it.idOf('leaving')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await askByAnnotation('leaving-back', 'leaving', 'leaving-1')
  await eventually(
    () => it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 2))),
    found => found !== undefined,
  )
  await it.cluster().delete('ManagedDatabase', at('leaving'))
  it.workload().volumes.unprovisioned = () => undefined
  await it.gone('leaving')
  await eventually(
    () => restore('leaving-back'),
    found => found === undefined,
  )
  const { items } = await it.cluster().list('PersistentVolumeClaim', { labels: { [labels.database]: id } })
  expect(items).toEqual([])
})

test('what was put back out of a backup of the cluster restores nothing', async () => {
  await mistaken('old')
  await it.stopOperator()
  const { metadata, ...made } = await ask('old-back', 'old', 'old-1')
  await it.cluster().replace('Restore', { ...made, metadata: { ...metadata, finalizers: ['espalier.dev/teardown'] } })
  await it.startOperator()
  const ended = await when('old-back', ({ status }) => status?.finishedAt !== undefined)
  expect(reasonOf(ended)).toBe('PutBack')
  expect(await contentOf('old')).toBe('bad')
})
