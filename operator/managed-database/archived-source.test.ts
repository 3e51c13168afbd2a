/** Databases created from a durable backup in the archive, with fakes for nodes, agents and the archive. */
import { expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { databaseDraft, eventually, regionDraft, withArchive } from '../testing/installation.ts'

const it = useInstallation({ configuration: withArchive })
const { request, ended, dataOf, untilDeleted, get } = useBackups(it)

const make = (name: string, backupName: string, more = {}) =>
  it.cluster().create('ManagedDatabase', databaseDraft(name, { dataSource: { backupName }, ...more }))
const original = async (name: string) => {
  await it.create(name, { backup: { durable: true } })
  ;(await dataOf(name)).content = name
  await request(`${name}-kept`, name, { kind: 'durable' })
  expect((await ended(`${name}-kept`))?.status?.phase).toBe('completed')
}

test('it has the data of the backup, and access to the archive only until they are restored', async () => {
  await original('first')
  await make('second', 'first-kept')
  await it.when('second', isPhase('available'))
  expect((await dataOf('second')).content).toBe('first')
  const id = await it.idOf('second')
  const claim = await it.child('PersistentVolumeClaim', 'second', 'claim')
  expect(claim?.spec?.dataSource).toBeUndefined()
  await eventually(
    () => it.cluster().get('Secret', at(childNames.archiveSource(id, 1))),
    found => found === undefined,
  )
  await eventually(
    () => it.cluster().get('NetworkPolicy', at(childNames.service(id))),
    found => found !== undefined && found.spec?.egress === undefined,
  )
})

test('the backup is kept until the volume has its data', async () => {
  await original('held')
  it.workload().volumes.unprovisioned = () => 'not yet'
  await make('slow', 'held-kept')
  await eventually(
    () => it.child('PersistentVolumeClaim', 'slow', 'claim'),
    found => found !== undefined,
  )
  await it.cluster().delete('Backup', at('held-kept'))
  const blocked = await eventually(
    () => get('held-kept'),
    found => conditionOf(found?.status, 'Progressing')?.reason === 'InUse',
  )
  expect(conditionOf(blocked?.status, 'Progressing')?.message).toContain('slow')
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()
  await it.when('slow', isPhase('available'))
  expect((await dataOf('slow')).content).toBe('held')
  await untilDeleted('held-kept')
})

test('it can be in another region than the backup', async () => {
  await original('near')
  await it.cluster().create('Region', { ...regionDraft({ first: 33_000, last: 33_001 }), metadata: { name: 'far' } })
  await make('away', 'near-kept', { region: 'far' })
  const claim = await eventually(
    () => it.child('PersistentVolumeClaim', 'away', 'claim'),
    found => found !== undefined,
  )
  expect(claim).toBeDefined()
})
