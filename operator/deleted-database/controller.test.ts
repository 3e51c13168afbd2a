/** Restores of deleted databases, and their final deletion, with fakes for nodes, agents and the archive. */
import { afterEach, expect, test } from 'vitest'
import {
  annotations,
  childNames,
  deletedDatabaseKey,
  deletedDatabaseManifest,
  labels,
  type ManagedDatabase,
  readDeletedDatabase,
  type ServiceConfig,
  specOfDeleted,
  systemNamespace,
} from '../../crds/index.ts'
import { httpRouteName } from '../../routes/route.ts'
import { instanceFile } from '../member/postgres/configuration.ts'
import { at, useBackups } from '../testing/backups.ts'
import { isPhase, useInstallation } from '../testing/fixture.ts'
import { editSpec, eventually, silent, testConfiguration, testNamespace, withArchive } from '../testing/installation.ts'
import { collect } from './collect.ts'

const images = { ...testConfiguration.images, services: 'espalier' }
const it = useInstallation({ configuration: { ...withArchive, images } })
const { request, dataOf, ended, get, untilDeleted } = useBackups(it)
const archive = () => {
  const { archive } = it.installation()
  if (archive === undefined) throw new Error('there is no fake archive')
  return archive
}
afterEach(() => archive().reset())

const create = async (name: string, deletion = {}, services: ServiceConfig[] = []) => {
  await it.create(name, { backup: { durable: true }, deletion: { keepBackups: false, ...deletion }, services })
  ;(await dataOf(name)).content = name
  await request(`${name}-kept`, name, { kind: 'durable' })
  await ended(`${name}-kept`)
  await it.when(name, ({ status }) => status?.archive !== undefined)
  return it.idOf(name)
}
const areServicesRunning = ({ status }: ManagedDatabase): boolean =>
  (status?.services ?? []).filter(({ state }) => state === 'running').length === 2
const remove = (name: string) => it.cluster().delete('ManagedDatabase', at(name))
const record = (id: string) => it.cluster().get('ConfigMap', deletedDatabaseKey(id))
const recorded = async (id: string) => {
  const map = await eventually(
    () => record(id),
    found => found !== undefined,
  )
  if (map === undefined) throw new Error('there is no record')
  return map
}
const untilRecordDeleted = (id: string) =>
  eventually(
    () => record(id),
    found => found === undefined,
  )
const secretsOf = async (id: string) => {
  const { items } = await it.cluster().list('Secret', { namespace: testNamespace })
  return items.filter(({ metadata }) => metadata.labels?.['espalier.dev/database'] === id)
}
const credentialsOf = (id: string) => it.cluster().get('Secret', at(childNames.credentials(id)))
/** Creates an object from the record, like `kubectl create`. */
const bringBack = async (id: string, change = (manifest: object) => manifest) =>
  it
    .cluster()
    .create('ManagedDatabase', change(JSON.parse((await recorded(id)).data?.[deletedDatabaseManifest] ?? '')) as never)
const collectAt = async (id: string, now: number, distrust?: string) => {
  const map = await recorded(id)
  const deleted = readDeletedDatabase(map)
  if (deleted === undefined) throw new Error('the record cannot be read')
  const clock = { distrust: () => distrust as never }
  const { signal } = new AbortController()
  const ways = () => archive().ways
  const of = { cluster: it.cluster(), archive: ways, isServed: () => true, clock, logger: silent, signal }
  return collect({ ...of, now: () => now }, map, deleted)
}

test('a deleted database is restored with its id, data, passwords and port', async () => {
  const id = await create('first')
  await request('first-hot', 'first')
  await ended('first-hot')
  const port = (await it.database('first'))?.status?.endpoint?.port
  const secret = await credentialsOf(id)
  await remove('first')
  await it.untilDeleted('first')
  await untilDeleted('first-hot')
  expect((await secretsOf(id)).map(({ metadata }) => metadata.name)).toEqual([childNames.credentials(id)])
  const map = await recorded(id)
  expect(readDeletedDatabase(map)).toMatchObject({ id, name: 'first', incarnation: 1, keepsBackups: false })
  expect(specOfDeleted(map)?.dataSource).toMatchObject({ backupName: 'first-kept', undelete: { incarnation: 2, port } })
  expect(archive().deletedAll).not.toContainEqual({ id, incarnation: 1 })

  await bringBack(id)
  const back = await it.when('first', isPhase('available'))
  expect(back.status).toMatchObject({ incarnation: 2, endpoint: { port } })
  expect(await it.idOf('first')).toBe(id)
  const claim = await it.cluster().get('PersistentVolumeClaim', at(childNames.claim(id, 2)))
  expect(it.workload().postgres.data.get(claim?.metadata.uid ?? '')?.content).toBe('first')
  const after = await credentialsOf(id)
  expect([after?.metadata.uid, after?.data]).toEqual([secret?.metadata.uid, secret?.data])
  await untilRecordDeleted(id)
  expect((await get('first-kept'))?.status?.phase).toBe('completed')
})

test('a restored database has its services with their settings, addresses and tokens', async () => {
  const ipAllowlist = { rules: [{ cidr: '203.0.113.0/24' }] }
  const mcp: ServiceConfig = { serviceType: 'mcp', serviceId: '00000001', ipAllowlist, mcp: { allowWrites: true } }
  const rest: ServiceConfig = {
    ...{ serviceType: 'rest', serviceId: '00000002', ipAllowlist },
    rest: { dbSchemas: 'public', dbAnonRole: 'web_anon', dbPool: 10, maxRows: 1000 },
  }
  const id = await create('served', {}, [mcp, rest])
  const before = await it.when('served', areServicesRunning)
  const token = () => it.cluster().get('Secret', at(childNames.serviceSecret(id, mcp.serviceId)))
  const minted = await token()
  expect(minted?.data).toBeDefined()
  await remove('served')
  await it.untilDeleted('served')
  expect((await token())?.metadata.uid).toBe(minted?.metadata.uid)
  expect(
    (await it.cluster().list('Deployment', { namespace: testNamespace, labels: { [labels.database]: id } })).items,
  ).toEqual([])

  await bringBack(id)
  await it.when('served', isPhase('available'))
  const back = await it.when('served', areServicesRunning)
  expect(back.spec.services).toEqual(before.spec.services)
  expect(back.status?.services).toEqual(before.status?.services)
  const after = await token()
  expect([after?.metadata.uid, after?.data]).toEqual([minted?.metadata.uid, minted?.data])
  for (const { serviceType } of [mcp, rest]) {
    const address = await it.cluster().get('Service', at(childNames.serviceAddress(id, serviceType)))
    expect(address?.spec?.selector?.[labels.configuration]).toBeDefined()
  }
  const route = { namespace: systemNamespace, name: httpRouteName(back.status?.domain ?? '') }
  expect(await it.cluster().get('ConfigMap', route)).toBeDefined()
})

test('a failed restore can be tried again', async () => {
  const id = await create('second')
  await remove('second')
  await it.untilDeleted('second')
  const before = readDeletedDatabase(await recorded(id))
  expect(before?.archive).toMatchObject({ incarnation: 1 })
  await bringBack(id, manifest => {
    const broken = manifest as { spec: { dataSource: { backupName: string } } }
    return { ...broken, spec: { ...broken.spec, dataSource: { ...broken.spec.dataSource, backupName: 'gone' } } }
  })
  await it.when('second', ({ status }) => status?.incarnation === 2)
  await remove('second')
  await it.untilDeleted('second')
  const map = await recorded(id)
  expect(readDeletedDatabase(map)).toMatchObject({
    deletedAt: before?.deletedAt,
    archive: before?.archive,
    incarnation: 2,
  })
  expect(specOfDeleted(map)?.dataSource).toMatchObject({ backupName: 'second-kept', undelete: { incarnation: 3 } })
  expect(await credentialsOf(id)).toBeDefined()
  await bringBack(id)
  await it.when('second', isPhase('available'))
  await untilRecordDeleted(id)
})

test('after the window everything is deleted, when the archive answers', async () => {
  const id = await create('third')
  await remove('third')
  await it.untilDeleted('third')
  const until = Date.parse(readDeletedDatabase(await recorded(id))?.keptUntil ?? '')
  expect(await collectAt(id, until)).toMatchObject({ againMs: 600_000 })
  expect(await collectAt(id, until + 3600_000, 'the clock was set')).toMatchObject({ againMs: 3600_000 })
  expect(await credentialsOf(id)).toBeDefined()
  expect(await collectAt(id, until + 600_000)).toEqual({ againMs: 5_000 })
  expect(await secretsOf(id)).toEqual([])
  await untilDeleted('third-kept')
  archive().down = { archive: 'no route' }
  await expect(collectAt(id, until + 600_000)).rejects.toThrow('no route')
  archive().down = undefined
  expect(await collectAt(id, until + 600_000)).toBe('done')
  expect(archive().deletedAll).toContainEqual({ id, incarnation: 1 })
  expect(await record(id)).toBeUndefined()
})

test('an unreachable archive is reported, and the deletion is retried', async () => {
  const id = await create('away', { purge: true })
  await it.cluster().delete('Backup', at('away-kept'))
  await untilDeleted('away-kept')
  archive().down = { archive: 'no route' }
  await remove('away')
  await it.untilDeleted('away')
  const { name, namespace } = deletedDatabaseKey(id)
  const event = await eventually(
    async () => (await it.cluster().list('Event', { namespace })).items.find(each => each.involvedObject.name === name),
    event => event !== undefined,
  )
  expect(event).toMatchObject({ type: 'Warning', reason: 'NotDeleted', message: expect.stringContaining('no route') })
  archive().down = undefined
  await untilRecordDeleted(id)
}, 20_000)

test('a permanent deletion leaves nothing, and a record annotated for purging leaves nothing', async () => {
  const id = await create('fourth', { purge: true })
  await remove('fourth')
  await it.untilDeleted('fourth')
  await untilRecordDeleted(id)
  expect([await secretsOf(id), await get('fourth-kept')]).toEqual([[], undefined])
  expect(archive().deletedAll).toContainEqual({ id, incarnation: 1 })

  const other = await create('fifth')
  await remove('fifth')
  await it.untilDeleted('fifth')
  const map = await recorded(other)
  const objectAnnotations = { ...map.metadata.annotations, [annotations.purge]: 'true' }
  await it.cluster().replace('ConfigMap', { ...map, metadata: { ...map.metadata, annotations: objectAnnotations } })
  await untilDeleted('fifth-kept')
  await eventually(
    () => secretsOf(other),
    found => found.length === 0,
  )
})

test('durable backups that a user keeps remain in the archive; WAL does not', async () => {
  const id = await create('sixth', { keepBackups: true, purge: true })
  await remove('sixth')
  await it.untilDeleted('sixth')
  await untilRecordDeleted(id)
  expect(archive().deletedAll).not.toContainEqual({ id, incarnation: 1 })
  expect(archive().deletedWal).toContainEqual({ id, incarnation: 1, before: 'F'.repeat(24) })
  expect((await get('sixth-kept'))?.status?.phase).toBe('completed')
  await it.cluster().delete('Backup', at('sixth-kept'))
  await untilDeleted('sixth-kept')
})

test('a database without the durable tier, or without a durable backup, is deleted completely', async () => {
  await it.create('plain')
  const id = await it.idOf('plain')
  await remove('plain')
  await it.untilDeleted('plain')
  expect([await record(id), await secretsOf(id)]).toEqual([undefined, []])
})

test('nothing is deleted while a database with the id exists', async () => {
  const id = await create('seventh')
  await remove('seventh')
  await it.untilDeleted('seventh')
  const until = Date.parse(readDeletedDatabase(await recorded(id))?.keptUntil ?? '')
  it.workload().volumes.unprovisioned = () => 'not yet'
  await bringBack(id)
  const map = await eventually(
    () => it.cluster().get('ConfigMap', at(childNames.configuration(id, 2))),
    found => found !== undefined,
  )
  // Between the last recorded position and the end of WAL.
  const { recover } = JSON.parse(map?.data?.[instanceFile] ?? '')
  expect(recover).toMatchObject({
    id,
    incarnation: 1,
    through: expect.any(String),
    target: { kind: 'time', time: '9999-12-31T23:59:59Z' },
  })
  expect(await collectAt(id, until + 3600_000)).toBe('waits')
  expect(await get('seventh-kept')).toBeDefined()
  it.workload().volumes.unprovisioned = () => undefined
  it.workload().regrow()
  await it.when('seventh', isPhase('available'))
  await editSpec(it.cluster(), 'seventh', spec => ({ ...spec, deletion: { keepBackups: false, purge: true } }))
})
