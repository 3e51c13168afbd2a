/**
 * Resizes on a real cluster. The volume grows before Postgres is restarted, once. If a quota or a class refuses the
 * growth, nothing stops, the reason is reported, and the current size can be requested again.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { apiVersion, childNames, type ManagedDatabase } from '../../crds/index.ts'
import { type ApiClient, type Connection, type Database, eventually, openTo, query } from '../client.ts'
import { type KindProvider, startKind } from '../providers/kind.ts'
import { minutes } from './serving.ts'

const tenant = 'growth'
const grown = 'e2e-grown'
const inflexible = 'e2e-inflexible'
let provider: KindProvider
let api: ApiClient
let namespace: string

const kubectl = (args: string[], input?: string) => provider.kubectl(args, input)
const apply = (object: object) => kubectl(['apply', '-f', '-'], stringify(object))

beforeAll(async () => {
  provider = await startKind()
  api = await provider.client(tenant)
  namespace = provider.namespace(tenant)
  const nano = await provider.cluster.get('Size', { name: 'nano-v1' })
  if (nano === undefined) throw new Error('there is no size nano')
  const spec = { ...nano.spec, id: crypto.randomUUID(), name: grown, displayName: 'Grown' }
  const shape = { ...nano.spec.shape, storageSize: '2Gi' }
  await apply({ apiVersion, kind: 'Size', metadata: { name: `${grown}-v1` }, spec: { ...spec, shape } })
}, minutes(2))
afterAll(async () => {
  for (const name of ['limited', 'fixed']) {
    const { body } = await api.call<Database[]>('GET', '/databases')
    const found = body.find(each => each.name === name)
    if (found !== undefined) await api.remove(found.id)
  }
  await kubectl([
    'delete',
    `size/${grown}-v1`,
    `region/${inflexible}`,
    `storageclass/${inflexible}`,
    '--ignore-not-found',
  ])
  await provider?.stop()
}, minutes(4))

const stored = async (name: string): Promise<ManagedDatabase> => {
  const found = await provider.cluster.get('ManagedDatabase', { namespace, name })
  if (found === undefined) throw new Error(`there is no database ${name}`)
  return found
}
const sizeApplied = async (name: string) =>
  (await stored(name)).status?.conditions?.find(({ type }) => type === 'SizeApplied')
const postmaster = async (id: string) => (await provider.postmaster(namespace, id)).id
const capacity = async (id: string) =>
  (await provider.cluster.get('PersistentVolumeClaim', { namespace, name: childNames.claim(id, 1) }))?.status?.capacity
    ?.storage
const expectRows = async (connection: Connection) =>
  expect(await query(connection, 'SELECT n FROM kept')).toEqual([{ n: 42 }])

async function made(name: string, more: object = {}): Promise<{ id: string; connection: Connection }> {
  const rules = openTo(provider.clientAddress)
  const { body } = await api.create({ name, pg_version: '17', size: 'nano', ip_allowlist: rules, ...more })
  expect(body.status).toBe('available')
  const connection = await api.connection(body.id)
  await query(connection, 'CREATE TABLE kept AS SELECT 42 AS n')
  return { id: body.id, connection }
}

type Task = { status: string; error?: string }
const resize = async (id: string, size: string): Promise<Task> => {
  const answer = await api.call('POST', `/databases/${id}/size`, { size })
  expect(answer.status).toBe(204)
  return eventually(
    'the task has succeeded or failed',
    async () => {
      const { body: task } = await api.call<Task>('GET', `/tasks/${answer.headers.get('x-task-id')}`)
      return ['succeeded', 'failed'].includes(task.status) && task
    },
    minutes(3),
  )
}

test(
  'a resize that a quota refuses: Postgres continues unchanged, and gets the size soon after the quota is removed',
  async () => {
    const { id, connection } = await made('limited')
    const before = await postmaster(id)
    await apply({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'e2e-storage', namespace },
      spec: { hard: { 'requests.storage': '1Gi' } },
    })
    await eventually('the ResourceQuota counts 1Gi as used', async () => {
      const used = await kubectl(['get', 'quota/e2e-storage', '-n', namespace, '-o', 'jsonpath={.status.used}'])
      return used.includes('1Gi')
    })
    const failed = await resize(id, grown)
    expect(failed.status).toBe('failed')
    const condition = await sizeApplied('limited')
    expect(condition).toMatchObject({ reason: 'GrowthRefused', message: expect.stringContaining('exceeded quota') })
    expect((await api.read(id)).body).toMatchObject({ status: 'available', size: 'nano' })
    expect(await postmaster(id)).toBe(before)
    expect(await capacity(id)).toBe('1Gi')
    await expectRows(connection)

    await kubectl(['delete', 'quota/e2e-storage', '-n', namespace])
    await eventually('the database has the new size', async () => (await api.read(id)).body.size === grown, minutes(3))
    await eventually(
      'the database is available',
      async () => (await api.read(id)).body.status === 'available',
      minutes(2),
    )
    expect(await capacity(id)).toBe('2Gi')
    expect(await sizeApplied('limited')).toBeUndefined()
    expect(await postmaster(id)).not.toBe(before)
    await expectRows(connection)
  },
  minutes(8),
)

test(
  'a resize that a class without expansion refuses: the current size can be requested again, without a restart',
  async () => {
    const text = await kubectl(['get', 'storageclass/espalier-local', '-o', 'json'])
    const { provisioner, parameters, volumeBindingMode } = JSON.parse(text)
    await apply({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: inflexible },
      provisioner,
      parameters,
      volumeBindingMode,
      allowVolumeExpansion: false,
    })
    const local = await provider.cluster.get('Region', { name: 'local' })
    await apply({
      apiVersion,
      kind: 'Region',
      metadata: { name: inflexible },
      spec: { ...local?.spec, storageClass: inflexible },
    })
    await eventually('the API lists the new region', async () => {
      const { body } = await api.call<{ name?: string; id?: string }[]>('GET', '/regions')
      return JSON.stringify(body).includes(inflexible)
    })
    const { id, connection } = await made('fixed', { region: inflexible })
    const before = await postmaster(id)
    expect((await resize(id, grown)).status).toBe('failed')
    expect(await sizeApplied('fixed')).toMatchObject({ reason: 'GrowthRefused' })
    expect((await api.read(id)).body).toMatchObject({ status: 'available', size: 'nano' })
    expect((await resize(id, 'nano')).status).toBe('succeeded')
    expect(await sizeApplied('fixed')).toBeUndefined()
    expect(await postmaster(id)).toBe(before)
    await expectRows(connection)
  },
  minutes(6),
)
