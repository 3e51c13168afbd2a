/** A volume that grows automatically as its database fills it, with a real Postgres. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames } from '../crds/index.ts'
import { type ApiClient, connect, type Database, eventually, openTo, query } from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
  // A small size, which a test can fill.
  const { apiVersion, kind, spec } = (await provider.cluster.get('Size', { name: 'nano-v1' })) ?? {}
  if (apiVersion === undefined || kind === undefined || spec === undefined) throw new Error('there is no size')
  const mini = { ...spec, id: crypto.randomUUID(), name: 'mini', shape: { ...spec.shape, storageSize: '320Mi' } }
  await provider.cluster.create('Size', { apiVersion, kind, metadata: { name: 'mini-v1' }, spec: mini })
})
afterAll(async () => {
  await provider?.cluster.delete('Size', { name: 'mini-v1' })
  await provider?.stop()
})

/** A kubelet grows the file system only after a delay. */
const growthMs = 120_000

type Shown = Database & { storage?: { volume_size?: string; autogrow: object } }

test('grows up to its limit, while sessions continue', async () => {
  const { body } = await api.create({ name: 'filling', size: 'mini', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = body
  const session = await connect(await api.connection(id))
  // Unlogged, because WAL as large as the table would fill such a small volume.
  await session.query(
    'CREATE UNLOGGED TABLE padding AS SELECT n, repeat(md5(n::text), 30) AS text FROM generate_series(1, 145000) AS n',
  )
  const before = await provider.postmaster(provider.namespace(), id)
  const tasks = async () => (await api.call<object[]>('GET', `/tasks?subject_id=${id}`)).body.length
  const count = await tasks()

  const autogrow = { at_percent: 50, step_percent: 50, max_size: '360Mi' }
  const changed = await api.call<Shown>('PATCH', `/databases/${id}`, { storage: { autogrow } })
  expect(changed).toMatchObject({ status: 200, body: { status: 'available', storage: { autogrow } } })
  await eventually(
    'the volume is grown to 360Mi',
    async () => {
      const { storage, status } = (await api.call<Shown>('GET', `/databases/${id}`)).body
      expect(status).toBe('available')
      return storage?.volume_size === '360Mi'
    },
    growthMs,
  )
  const name = childNames.claim(id, 1)
  const claim = await provider.cluster.get('PersistentVolumeClaim', { namespace: provider.namespace(), name })
  expect(claim?.spec?.resources?.requests?.storage).toBe('360Mi')
  expect((await session.query('SELECT count(*)::int AS rows FROM padding')).rows).toEqual([{ rows: 145000 }])
  await session.end()
  expect((await provider.postmaster(provider.namespace(), id)).id).toBe(before.id)
  expect(await tasks()).toBe(count)

  await eventually(
    'the limit of the growth is reported',
    async () => {
      const database = await provider.cluster.get('ManagedDatabase', {
        namespace: provider.namespace(),
        name: 'filling',
      })
      return database?.status?.conditions?.find(({ type }) => type === 'VolumeGrown')?.reason === 'AtMaximum'
    },
    growthMs,
  )
  expect(await query(await api.connection(id), 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await api.remove(id)
})
