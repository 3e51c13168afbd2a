/** Pods and databases that are stopped, started or deleted during a restore. */
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError } from '../../cluster/index.ts'
import { type Condition, childNames, labels } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { eventually } from '../testing/installation.ts'
import { createReads } from '../testing/reads.ts'
import { useRestores } from '../testing/restores.ts'

const it = useInstallation()
const backups = useBackups(it)
const { get: backupOf, restarted } = backups
const { restore, when, requestByAnnotation, untilReconciled, createChanged, contentOf } = useRestores(it, backups)
const hasMessage = (message: string) => (condition: Condition) => condition.message.includes(message)

describe('the old pod', () => {
  const podKey = async (name: string) => at(childNames.pod(await it.idOf(name), 1))
  const pod = async (name: string) => it.cluster().get('Pod', await podKey(name))

  test('is not replaced before the StatefulSet controller has observed the scale to zero', async () => {
    await createChanged('lagging')
    const reads = createReads()
    await restarted({ wrap: reads.cluster })
    it.workload().lag(true)
    await requestByAnnotation('lagging-back', 'lagging', 'lagging-1')
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
    await untilReconciled('lagging')
    expect(await contentOf('lagging')).toBe('good')
  })

  test('cannot be created again by a stale controller while its volume is copied', async () => {
    await createChanged('stale')
    it.workload().snapshots.making = { mode: 'held' }
    await requestByAnnotation('stale-back', 'stale', 'stale-1')
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
    await untilReconciled('stale')
    expect(await contentOf('stale')).toBe('good')
  })

  test('starts again if the restore is cancelled, as soon as its lock can be deleted', async () => {
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
    await createChanged('freed')
    it.workload().snapshots.making = { mode: 'held' }
    await requestByAnnotation('freed-back', 'freed', 'freed-1')
    await it.when('freed', ({ status }) => status?.conditions?.some(hasMessage('no Restores today')) === true)
    isCreationRefused = false
    const { anchor = '' } = (await when('freed-back', found => found.status?.fencedAt !== undefined))?.status ?? {}
    await eventually(
      () => backupOf(anchor),
      found => found?.status?.phase === 'running',
    )
    isRefused = true
    await it.cluster().delete('Restore', at('freed-back'))
    const reported = await when('freed-back', found => conditionOf(found.status, 'Progressing')?.reason === 'Refused')
    expect(conditionOf(reported?.status, 'Progressing')?.message).toBe('the operator may not')
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

test('a restore completes if the pod of the candidate is deleted meanwhile', async () => {
  await createChanged('killed')
  const id = await it.idOf('killed')
  it.workload().snapshots.making = { mode: 'held' }
  await requestByAnnotation('killed-back', 'killed', 'killed-1')
  await when('killed-back', ({ status }) => status?.fencedAt !== undefined)
  await it.cluster().delete('Pod', at(childNames.pod(id, 2)))
  it.workload().snapshots.making = { mode: 'making' }
  it.workload().resnapshot()
  await when('killed-back', ({ status }) => status?.phase === 'completed')
  await untilReconciled('killed')
  expect(await contentOf('killed')).toBe('good')
})

test('a database that is deleted during a restore is deleted with the candidate', async () => {
  await createChanged('leaving')
  const id = await it.idOf('leaving')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await requestByAnnotation('leaving-back', 'leaving', 'leaving-1')
  await eventually(
    () => it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 2))),
    found => found !== undefined,
  )
  await it.cluster().delete('ManagedDatabase', at('leaving'))
  it.workload().volumes.unprovisioned = () => undefined
  await it.untilDeleted('leaving')
  await eventually(
    () => restore('leaving-back'),
    found => found === undefined,
  )
  const { items } = await it.cluster().list('PersistentVolumeClaim', { labels: { [labels.database]: id } })
  expect(items).toEqual([])
})
