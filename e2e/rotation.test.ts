/** Passwords that the API replaces on request, with a real Postgres. */
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

const rotate = (id: string, role: string, headers: Record<string, string> = { prefer: 'wait=60' }) =>
  api.call('POST', `/databases/${id}/roles/${role}/rotate-password`, undefined, headers)
const reach = async (connection: Connection) => (await connect(connection)).end()

test('one role gets a new password, while its sessions continue and other roles are not affected', async () => {
  const { body: database } = await api.create({ name: 'turned', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = database
  const [app, admin, reader] = await Promise.all(
    ['application', 'admin', 'application_read_only'].map(role => api.connection(id, role)),
  )
  if (app === undefined || admin === undefined || reader === undefined) throw new Error('three roles')
  const session = await connect(app)
  // A user's changes of another role are kept.
  await query(admin, "ALTER ROLE admin PASSWORD 'of my own'")

  const requested = await rotate(id, 'app')
  expect(requested.status).toBe(204)
  const task = await api.call('GET', `/tasks/${requested.headers.get('x-task-id')}`, undefined, { prefer: 'wait=30' })
  expect(task.body).toMatchObject({ name: 'rotate-password-managed', status: 'succeeded', request: { role: 'app' } })
  const after = await api.connection(id)
  expect(after).toEqual({ ...app, password: expect.not.stringMatching(app.password) })
  await reach(after)
  expect(await sqlState(() => reach(app))).toBe('28P01')
  expect((await session.query('SELECT current_user AS me')).rows).toEqual([{ me: 'app' }])
  await session.end()
  await reach({ ...admin, password: 'of my own' })
  await reach(reader)
  expect(await api.connection(id, 'application_read_only')).toEqual(reader)

  // The rotation of that role overwrites the user's change.
  expect((await rotate(id, 'admin')).status).toBe(204)
  const mended = await api.connection(id, 'admin')
  expect([mended.password === admin.password, await sqlState(() => reach(mended))]).toEqual([false, 'none'])
  await reach(after)
  await api.remove(id)
})

test('kubectl requests it by an annotation, whose Task reports the result', async () => {
  const { body: database } = await api.create({ name: 'annotated', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = database
  const before = await api.connection(id)
  const key = { namespace: provider.namespace(), name: 'annotated' }
  await eventually('the annotation is written', async () => {
    const found = await provider.cluster.get('ManagedDatabase', key)
    if (found === undefined) throw new Error('there is no database')
    const annotations = { ...found.metadata.annotations, 'espalier.dev/rotate-password-app': 'please' }
    return provider.cluster.replace('ManagedDatabase', { ...found, metadata: { ...found.metadata, annotations } })
  })
  await eventually('the Task rotate-password-managed has succeeded', async () => {
    const { body } = await api.call<{ name: string; status: string }[]>('GET', `/tasks?subject_id=${id}`)
    return body.some(({ name, status }) => name === 'rotate-password-managed' && status === 'succeeded')
  })
  await eventually(
    'the database is available after the rotation',
    async () => (await api.read(id)).body.status === 'available',
  )
  await reach(await api.connection(id))
  expect(await sqlState(() => reach(before))).toBe('28P01')
  await api.remove(id)
})

test('every password shown as available is valid, through successive rotations', async () => {
  const { body: database } = await api.create({ name: 'often', ip_allowlist: openTo(provider.clientAddress) })
  const { id } = database
  const seen = new Set<string>()
  for (let round = 0; round < 5; round++) {
    expect((await rotate(id, 'app', {})).status).toBe(204)
    expect((await rotate(id, 'app', {})).status).toBe(409)
    await eventually(
      'the database is available after the rotation',
      async () => (await api.read(id)).body.status === 'available',
    )
    const { body } = await api.read(id)
    if (body.connection === undefined) throw new Error('no connection')
    await reach(body.connection)
    seen.add(body.connection.password)
  }
  expect(seen.size).toBe(5)
  expect((await rotate(id, 'postgres')).status).toBe(400)
  await api.call<Database>('POST', `/databases/${id}/suspend`, undefined, { prefer: 'wait=60' })
  expect((await rotate(id, 'app')).status).toBe(409)
  await api.remove(id)
})
