/** A database that is suspended and resumed, with a real Postgres. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type ApiClient,
  type Connection,
  connect,
  type Database,
  eventually,
  openTo,
  query,
  sqlState,
} from './client.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

const request = (id: string, what: 'suspend' | 'resume') =>
  api.call<Database>('POST', `/databases/${id}/${what}`, undefined, { prefer: 'wait=60' })
const reach = async (connection: Connection) => (await connect(connection)).end()

test('keeps its data, allowlist, address and passwords while no Postgres runs', async () => {
  const ip_allowlist = openTo(provider.clientAddress)
  const { body: database } = await api.create({ name: 'paused', ip_allowlist })
  const { id } = database
  const before = await api.connection(id)
  await query(before, "CREATE TABLE fruit AS SELECT 'pear' AS name")
  const session = await connect(before)

  const suspended = await request(id, 'suspend')
  expect(suspended).toMatchObject({ status: 202, body: { status: 'suspended' } })
  const taskOf = async ({ headers }: typeof suspended) =>
    (await api.call('GET', `/tasks/${headers.get('x-task-id')}`, undefined, { prefer: 'wait=30' })).body
  expect(await taskOf(suspended)).toMatchObject({ name: 'suspend-managed', status: 'succeeded', subject_id: id })
  await expect(session.query('SELECT 1')).rejects.toThrow()
  await expect(provider.postmaster(provider.namespace(), id)).rejects.toThrow()
  expect(await sqlState(() => reach(before))).not.toBe('none')
  expect((await api.read(id)).body).toMatchObject({ status: 'suspended', ip_allowlist: database.ip_allowlist })
  expect(await api.connection(id)).toEqual(before)
  expect((await request(id, 'suspend')).status).toBe(409)
  expect((await api.call('POST', `/databases/${id}/restart`)).status).toBe(409)
  expect((await api.change(id, { display_name: 'Paused' })).body).toMatchObject({ status: 'suspended' })
  expect((await api.change(id, { ip_allowlist: { rules: [] } })).status).toBe(409)

  const resumed = await request(id, 'resume')
  expect(resumed).toMatchObject({ status: 202, body: { status: 'available', ip_allowlist: database.ip_allowlist } })
  expect(await taskOf(resumed)).toMatchObject({ name: 'resume-managed', status: 'succeeded' })
  expect(await api.connection(id)).toEqual(before)
  expect(await query(before, 'TABLE fruit')).toEqual([{ name: 'pear' }])
  expect((await request(id, 'resume')).status).toBe(409)
  await api.remove(id)
})

test('can be resized, and deleted, while it is suspended', async () => {
  const { body: database } = await api.create({ name: 'resting', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = database
  await query(await api.connection(id), 'CREATE TABLE fruit AS SELECT 1 AS pears')
  await request(id, 'suspend')
  expect((await api.call('POST', `/databases/${id}/size`, { size: 'small' }, { prefer: 'wait=60' })).status).toBe(204)
  expect((await api.read(id)).body.status).toBe('suspended')
  expect((await request(id, 'resume')).body.status).toBe('available')
  // Some volumes grow only while a pod has them mounted.
  await eventually('the database is available with the size small', async () => {
    const { size, status } = (await api.read(id)).body
    return size === 'small' && status === 'available'
  })
  expect(await query(await api.connection(id), 'TABLE fruit')).toEqual([{ pears: 1 }])
  await request(id, 'suspend')
  expect((await api.remove(id)).status).toBe(204)
  expect((await api.read(id)).status).toBe(404)
})
