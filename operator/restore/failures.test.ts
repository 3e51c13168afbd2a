/** Restores that fail or wait, and do not change the database. */
import { describe, expect, test } from 'vitest'
import { apiVersion, childNames } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, shortTimeouts, useBackups } from '../testing/backups.ts'
import { useInstallation } from '../testing/fixture.ts'
import { eventually, testConfiguration } from '../testing/installation.ts'
import { reasonOf, useRestores } from '../testing/restores.ts'

const it = useInstallation()
const backups = useBackups(it)
const { get: backupOf, snapshotOf, untilDeleted, restarted } = backups
const { restore, when, request, requestByAnnotation, untilReconciled, createChanged, contentOf, claimDeleted } =
  useRestores(it, backups)

describe('a restore fails and leaves the database unchanged if', () => {
  test.each<[string, (name: string) => Promise<unknown>, string]>([
    ['the backup does not exist', name => request(`${name}-back`, name, 'nothing'), 'BackupMissing'],
    [
      'the database has another id',
      name => request(`${name}-back`, name, `${name}-1`, crypto.randomUUID()),
      'DatabaseMissing',
    ],
  ])('%s', async (what, act, reason) => {
    const name = what.replaceAll(' ', '').slice(0, 20)
    await createChanged(name)
    await act(name)
    const ended = await when(`${name}-back`, ({ status }) => status?.finishedAt !== undefined)
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', reason])
    await untilReconciled(name)
    expect(await contentOf(name)).toBe('bad')
  })

  test('the backup is of another database', async () => {
    await createChanged('mine')
    await createChanged('yours')
    await request('mine-back', 'mine', 'yours-1')
    const ended = await when('mine-back', ({ status }) => status?.finishedAt !== undefined)
    expect(reasonOf(ended)).toBe('OtherDatabase')
  })

  test('no volume is provisioned before the deadline, and its claim is deleted', async () => {
    await createChanged('stuck')
    const id = await it.idOf('stuck')
    await restarted({ configuration: { deadlines: { ...testConfiguration.deadlines, restoringMs: 500 } } })
    it.workload().volumes.unprovisioned = claim =>
      claim.spec?.dataSource === undefined ? undefined : 'the pool is full'
    await requestByAnnotation('stuck-back', 'stuck', 'stuck-1')
    const ended = await when('stuck-back', ({ status }) => status?.finishedAt !== undefined)
    it.workload().volumes.unprovisioned = () => undefined
    expect(reasonOf(ended)).toBe('DeadlineExceeded')
    await untilReconciled('stuck')
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

test('a restore fails if a foreign backup has the name of its prerestore backup; that backup is not changed', async () => {
  await createChanged('squatted')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await it.stopOperator()
  await request('squatted-back', 'squatted', 'squatted-1')
  const { uid = '' } = (await restore('squatted-back'))?.metadata ?? {}
  const name = `squatted-back-${uid.slice(0, 8)}-prerestore`
  const databaseId = await it.idOf('squatted')
  await it.cluster().create('Backup', {
    ...{ apiVersion, kind: 'Backup', metadata: at(name) },
    spec: { databaseName: 'squatted', databaseId, kind: 'hot', purpose: 'prerestore' },
  })
  await it.startOperator()
  const found = await when('squatted-back', ({ status }) => status?.phase === 'failed')
  expect(found?.status).toMatchObject({ error: expect.stringContaining(`the backup ${name} already exists`) })
  expect([reasonOf(found), found?.status?.anchor]).toEqual(['NameTaken', undefined])
  await untilReconciled('squatted')
  expect(await contentOf('squatted')).toBe('bad')
  expect((await backupOf(name))?.metadata.deletionTimestamp).toBeUndefined()
  it.workload().volumes.unprovisioned = () => undefined
})

describe('a restore whose prerestore backup fails', () => {
  const failing = { mode: 'failing', message: 'the pool is full' } as const

  test('fails, and the database keeps its data', async () => {
    await createChanged('lone')
    const old = (await it.database('lone'))?.status?.volume
    await restarted(shortTimeouts)
    it.workload().snapshots.making = failing
    await requestByAnnotation('lone-back', 'lone', 'lone-1')
    const ended = await when('lone-back', ({ status }) => status?.finishedAt !== undefined)
    it.workload().snapshots.making = { mode: 'making' }
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', 'BackupFailed'])
    expect(ended?.status?.error).toMatch(/could not be backed up first: .*the pool is full.*discard_previous: true/)
    expect((await untilReconciled('lone')).status?.volume).toEqual(old)
    expect(await contentOf('lone')).toBe('bad')
    await restarted()
  })

  test('completes with discard_previous, and then deletes the old claim', async () => {
    await createChanged('agreed')
    const old = (await it.database('agreed'))?.status?.volume
    await restarted(shortTimeouts)
    it.workload().snapshots.making = failing
    await requestByAnnotation('agreed-back', 'agreed', 'agreed-1', true)
    const done = await when('agreed-back', ({ status }) => status?.phase === 'completed')
    it.workload().snapshots.making = { mode: 'making' }
    expect(done?.status?.anchorRefused).toMatch(/the pool is full/)
    expect(done?.spec.discardPrevious).toBe(true)
    await untilReconciled('agreed')
    expect(await contentOf('agreed')).toBe('good')
    await claimDeleted(old?.claim)
    await it.when('agreed', ({ status }) => status?.previous === undefined)
    await restarted()
  })
})

test('a restore that the quota refuses is reported by restore and task, and continues when the quota is removed', async () => {
  await createChanged('narrow')
  const quota = await it.cluster().create('ResourceQuota', {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: at('narrow'),
    spec: { hard: { persistentvolumeclaims: '0' } },
  })
  await requestByAnnotation('narrow-back', 'narrow', 'narrow-1')
  const isQuotaMessage = (message = '') =>
    /the quota has no space for the restored volume.*exceeded quota: narrow/.test(message)
  const found = await when('narrow-back', ({ status }) => isQuotaMessage(conditionOf(status, 'Progressing')?.message))
  expect(conditionOf(found?.status, 'Progressing')?.reason).toBe('QuotaExceeded')
  await eventually(
    () => it.tasksOf('narrow'),
    tasks =>
      tasks.some(
        ({ spec, status }) =>
          spec.name === 'restore-managed' && status?.messages?.some(({ text }) => isQuotaMessage(text)),
      ),
  )
  expect(await contentOf('narrow')).toBe('bad')
  await it.cluster().delete('ResourceQuota', quota.metadata)
  await when('narrow-back', ({ status }) => status?.phase === 'completed')
})

test('a backup that is deleted during a restore is kept until the volume is provisioned', async () => {
  await createChanged('early')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await requestByAnnotation('early-back', 'early', 'early-1')
  await when('early-back', ({ status }) => status?.phase === 'running')
  await it.cluster().delete('Backup', at('early-1'))
  await eventually(
    () => backupOf('early-1'),
    found => conditionOf(found?.status, 'Progressing')?.reason === 'InUse',
  )
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()
  await when('early-back', ({ status }) => status?.phase === 'completed')
  await untilReconciled('early')
  expect(await contentOf('early')).toBe('good')
  await untilDeleted('early-1')
})

test('a restore fails if its snapshot is deleted before the volume is provisioned, and the database keeps serving', async () => {
  await createChanged('robbed')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await requestByAnnotation('robbed-back', 'robbed', 'robbed-1')
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
  await untilReconciled('robbed')
  expect(await contentOf('robbed')).toBe('bad')
})
