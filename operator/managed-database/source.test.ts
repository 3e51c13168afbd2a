/** Databases created from a backup, also of a deleted database, with fakes for nodes and storage. */
import { describe, expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, editSpec, eventually, regionDraft } from '../testing/installation.ts'

const it = useInstallation()
const { taken, dataOf, snapshotOf, untilDeleted, get } = useBackups(it)

const make = (name: string, backupName: string, more = {}) =>
  it.cluster().create('ManagedDatabase', databaseDraft(name, { dataSource: { backupName }, ...more }))
const volumeReady = async (name: string) => conditionOf((await it.database(name))?.status, 'VolumeReady')
const original = async (name: string, more = {}) => {
  await it.create(name, more)
  ;(await dataOf(name)).content = name
  return taken(`${name}-1`, name)
}

test('it has the data of a deleted database, and its own name, id and passwords', async () => {
  await original('first', { deletion: { keepBackups: true } })
  const id = await it.idOf('first')
  const password = (await dataOf('first')).roles.app?.password
  await it.cluster().delete('ManagedDatabase', at('first'))
  await it.untilDeleted('first')
  await make('second', 'first-1')
  await it.when('second', isPhase('available'))
  const data = await dataOf('second')
  expect(data.content).toBe('first')
  expect(data.closed).toBeUndefined()
  expect(data.roles.app?.password).not.toBe(password)
  expect(await it.idOf('second')).not.toBe(id)
  const claim = await it.child('PersistentVolumeClaim', 'second', 'claim')
  expect(claim?.spec?.dataSource?.name).toBe((await snapshotOf('first-1'))?.metadata.name)
})

test('its source is kept until its volume exists, then deleted', async () => {
  await original('kept')
  it.workload().volumes.unprovisioned = claim => (claim.spec?.dataSource === undefined ? undefined : 'not yet')
  await make('made', 'kept-1')
  await eventually(
    () => it.child('PersistentVolumeClaim', 'made', 'claim'),
    found => found !== undefined,
  )
  await it.cluster().delete('Backup', at('kept-1'))
  const blocked = await eventually(
    () => get('kept-1'),
    found => conditionOf(found?.status, 'Progressing')?.reason === 'InUse',
  )
  expect(conditionOf(blocked?.status, 'Progressing')?.message).toContain('made')
  expect((await snapshotOf('kept-1'))?.metadata.deletionTimestamp).toBeUndefined()
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()
  await it.when('made', isPhase('available'))
  expect((await dataOf('made')).content).toBe('kept')
  await untilDeleted('kept-1')
})

describe('no empty database is initialised instead, if', () => {
  test('the backup does not exist; a backup created later is used', async () => {
    await make('early', 'late-1')
    await eventually(
      () => volumeReady('early'),
      found => found?.reason === 'BackupMissing',
    )
    expect(await it.child('PersistentVolumeClaim', 'early', 'claim')).toBeUndefined()
    await original('late')
    await it.when('early', isPhase('available'))
    expect((await dataOf('early')).content).toBe('late')
  })

  test('its snapshot is deleted', async () => {
    await original('robbed')
    const { name = '' } = (await snapshotOf('robbed-1'))?.metadata ?? {}
    await it.cluster().delete('VolumeSnapshot', at(name))
    await make('poor', 'robbed-1')
    const found = await eventually(
      () => volumeReady('poor'),
      condition => condition !== undefined && condition.reason !== 'Pending',
    )
    expect(['SnapshotLost', 'BackupNotCompleted']).toContain(found?.reason)
    expect(
      await it.cluster().get('PersistentVolumeClaim', at(childNames.claim(await it.idOf('poor'), 1))),
    ).toBeUndefined()
    await it.cluster().delete('ManagedDatabase', at('poor'))
    await it.untilDeleted('poor')
  })

  test('it is of another version', async () => {
    await original('older', { pgVersion: '17' })
    await make('newer', 'older-1')
    await eventually(
      () => volumeReady('newer'),
      found => found?.reason === 'OtherVersion',
    )
  })

  test('it is in another region', async () => {
    await original('near')
    const backup = await it.cluster().get('Backup', at('near-1'))
    expect(backup?.status?.region).toBe('here')
    await it.cluster().create('Region', { ...regionDraft({ first: 33_000, last: 33_001 }), metadata: { name: 'far' } })
    await make('away', 'near-1', { region: 'far' })
    await eventually(
      () => volumeReady('away'),
      found => found?.reason === 'OtherRegion',
    )
  })
})

test('its source never changes', async () => {
  await original('fixed')
  await make('still', 'fixed-1')
  await it.when('still', isPhase('available'))
  for (const backupName of ['other', undefined])
    await expect(
      editSpec(it.cluster(), 'still', ({ dataSource: _, ...spec }) => ({
        ...spec,
        ...(backupName === undefined ? {} : { dataSource: { backupName } }),
      })),
    ).rejects.toThrow('dataSource is immutable')
})
