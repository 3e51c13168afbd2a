/** The volume that a restore replaces: how long it is kept, and which deletions are allowed. */
import { describe, expect, test } from 'vitest'
import { annotations, childNames } from '../../crds/index.ts'
import { timestamp } from '../../values/time.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, useBackups } from '../testing/backups.ts'
import { useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, testConfiguration } from '../testing/installation.ts'
import { createReads } from '../testing/reads.ts'
import { reasonOf, useRestores } from '../testing/restores.ts'

const it = useInstallation()
const backups = useBackups(it)
const { taken, dataOf, snapshotOf, restarted } = backups
const { restore, when, request, requestByAnnotation, untilReconciled, createChanged, contentOf, claimDeleted } =
  useRestores(it, backups)

const later = { now: () => Date.now() + 25 * 3600_000 }
const previousOf = (name: string, reason: string) =>
  it.when(name, ({ status }) => status?.previous?.[0]?.reason === reason)

describe('the previous volume', () => {
  test('is in status, is kept if the Restore is deleted, and is deleted after a day', async () => {
    await createChanged('kept')
    const old = (await it.database('kept'))?.status
    await requestByAnnotation('kept-back', 'kept', 'kept-1')
    const done = await when('kept-back', ({ status }) => status?.phase === 'completed')
    await untilReconciled('kept')
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
    await claimDeleted(old?.volume?.claim)
    await it.when('kept', found => found.status?.previous === undefined)
    expect(conditionOf((await it.database('kept'))?.status, 'PreviousVolumesKept')).toBeUndefined()
    expect(await contentOf('kept')).toBe('good')
    await restarted()
  })

  test('without its backup is kept until its deletion is allowed', async () => {
    await createChanged('bare')
    const old = (await it.database('bare'))?.status?.volume
    await requestByAnnotation('bare-back', 'bare', 'bare-1')
    const done = await when('bare-back', ({ status }) => status?.phase === 'completed')
    await untilReconciled('bare')
    await it.cluster().delete('Backup', at(done?.status?.anchor ?? ''))
    await restarted(later)
    const { status } = await previousOf('bare', 'NoBackup')
    expect(conditionOf(status, 'PreviousVolumesKept')?.reason).toBe('AwaitsAgreement')
    expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    await editSpec(it.cluster(), 'bare', spec => spec, { [annotations.discardPrevious]: `other, ${old?.uid}` })
    await claimDeleted(old?.claim)
    await restarted()
  })

  test('of a restore whose data never served is kept until its deletion is allowed', async () => {
    await createChanged('never')
    const old = (await it.database('never'))?.status?.volume
    await restarted({ configuration: { deadlines: { ...testConfiguration.deadlines, modifyingMs: 1 } } })
    // The operator has logged in to the original already, so the backup does not wait. The copy never serves.
    await untilReconciled('never')
    ;(await dataOf('never')).isUnrouted = true
    await taken('never-2', 'never')
    await requestByAnnotation('never-back', 'never', 'never-2')
    const ended = await when('never-back', ({ status }) => status?.finishedAt !== undefined)
    expect([ended?.status?.phase, reasonOf(ended)]).toEqual(['failed', 'NotServing'])
    await restarted(later)
    await previousOf('never', 'RestoreFailed')
    expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    await editSpec(it.cluster(), 'never', spec => spec, { [annotations.discardPrevious]: old?.uid ?? '' })
    await claimDeleted(old?.claim)
    await restarted()
  })

  test.each<[string, boolean, string]>([
    ['found by its Restore and deleted after a day', false, 'KeptForADay'],
    ['kept until its deletion is allowed if its Restore is gone', true, 'RestoreUnknown'],
  ])('of an earlier release is %s', async (what, isForgotten, reason) => {
    const name = isForgotten ? 'unknown' : 'earlier'
    await createChanged(name)
    const old = (await it.database(name))?.status?.volume
    await requestByAnnotation(`${name}-back`, name, `${name}-1`)
    const done = await when(`${name}-back`, ({ status }) => status?.phase === 'completed')
    await untilReconciled(name)
    await it.stopOperator()
    const database = await it.database(name)
    if (database === undefined || done === undefined) throw new Error('database or restore is gone')
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
    if (!isForgotten) await claimDeleted(old?.claim)
    else {
      await previousOf(name, reason)
      expect((await it.cluster().get('PersistentVolumeClaim', at(old?.claim ?? '')))?.metadata.uid).toBe(old?.uid)
    }
    expect(await contentOf(name)).toBe('good')
    await restarted()
  })
})

test('a failed restore deletes neither the children nor the previous claim of a later restore', async () => {
  await createChanged('again')
  const id = await it.idOf('again')
  const old = (await it.database('again'))?.status?.volume
  const claim = (incarnation: number) =>
    it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, incarnation)))
  await request('again-a', 'again', 'again-1')
  it.workload().volumes.unprovisioned = of => (of.spec?.dataSource === undefined ? undefined : 'not yet')
  await eventually(
    () => claim(2),
    found => found !== undefined,
  )
  await it.cluster().delete('VolumeSnapshot', at((await snapshotOf('again-1'))?.metadata.name ?? ''))
  const failed = await when('again-a', ({ status }) => status?.phase === 'failed')
  it.workload().volumes.unprovisioned = () => undefined
  await untilReconciled('again')
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
  await requestByAnnotation('again-b', 'again', 'again-2')
  const { status } = (await when('again-b', found => found.status?.fencedAt !== undefined)) ?? {}
  const made = await claim(status?.incarnation ?? 0)
  const set = () => it.cluster().get('StatefulSet', at(childNames.statefulSet(id, status?.incarnation ?? 0)))
  const started = await set()
  // Each is read again: only the failed restore's own pass determines its remaining volume.
  const reads = createReads()
  const passOf = (incarnation = 0) => reads.of('StatefulSet', childNames.statefulSet(id, incarnation))
  const again = passOf(failed?.status?.incarnation)
  await restarted({ wrap: reads.cluster })
  await again
  // The other one is running, and its passes repeat.
  await reads.of('Restore', 'again-b', 2)
  expect((await set())?.metadata.uid).toBe(started?.metadata.uid)
  it.workload().snapshots.making = { mode: 'making' }
  it.workload().resnapshot()
  await when('again-b', found => found.status?.phase === 'completed')
  expect((await untilReconciled('again')).status?.volume?.uid).toBe(made?.metadata.uid)
  expect(await contentOf('again')).toBe('good')
  const both = Promise.all([passOf(failed?.status?.incarnation), passOf(status?.previous?.incarnation)])
  await restarted({ wrap: reads.cluster })
  await both
  await reads.quiet()
  expect((await claim(1))?.metadata.uid).toBe(old?.uid)
  await restarted()
})
