/**
 * A database that is restored in place from a backup, with a real Postgres. A restore undoes a mistake, and another
 * restore undoes the first.
 */
import { setTimeout as sleep } from 'node:timers/promises'
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

type Backup = { id: string; status: string; purpose: string; created_at: string; metadata: { error?: string } }

type Previous = { incarnation: number; reason: string; kept_until?: string; storage_used: number }

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

const create = async (name: string): Promise<Database> =>
  (await api.create({ name, ip_allowlist: openTo(provider.clientAddress) })).body
const backUp = async (id: string): Promise<Backup> => {
  const { body } = await api.call<Backup>('POST', `/databases/${id}/backup`, { kind: 'hot' }, { prefer: 'wait=60' })
  expect(body.status, JSON.stringify(body)).toBe('completed')
  return body
}
const restore = (id: string, backupId: string, headers: Record<string, string> = { prefer: 'wait=60' }) =>
  api.call<Database>('POST', `/databases/${id}/restore`, { backup_id: backupId }, headers)
const listed = async (id: string, purpose: string): Promise<Backup[]> =>
  (await api.call<Backup[]>('GET', `/backups?database_id=${id}`)).body.filter(backup => backup.purpose === purpose)
const available = (id: string) =>
  eventually(
    'the database is available after the restore',
    async () => (await api.read(id)).body.status === 'available',
    120_000,
  )

/** Commits one row after another until it is disconnected; returns the number of acknowledged rows. */
async function writeUntilDisconnected(connection: Connection): Promise<number> {
  const client = await connect(connection)
  let count = 0
  try {
    for (;;) {
      await client.query('INSERT INTO entry VALUES ($1)', [count])
      count++
    }
  } catch {
    return count
  }
}

/** Connects repeatedly until it is stopped. Returns the errors. */
function connectRepeatedly(connection: Connection): { stop(): Promise<string[]> } {
  const refusals = new Set<string>()
  let isStopped = false
  const connecting = (async () => {
    while (!isStopped) {
      const state = await sqlState(async () => (await connect(connection)).end())
      if (state !== 'none') refusals.add(state)
      await sleep(15)
    }
  })()
  return {
    stop: async () => {
      isStopped = true
      await connecting
      return [...refusals]
    },
  }
}

test('undoes a mistake, with the same id, address and password; and its retained backup has all earlier writes', async () => {
  const { id } = await create('shop')
  const connection = await api.connection(id)
  const before = (await api.read(id)).body
  await query(connection, 'CREATE TABLE entry (n int PRIMARY KEY)')
  await query(connection, "CREATE TABLE fruit AS SELECT 'pear' AS name")
  const backup = await backUp(id)
  await query(connection, 'DROP TABLE fruit')

  const writing = writeUntilDisconnected(connection)
  const requested = await restore(id, backup.id, {})
  expect(requested).toMatchObject({ status: 202, body: { id, name: 'shop', status: 'restoring' } })
  expect((await api.read(id)).body.status).toBe('restoring')
  expect((await restore(id, backup.id)).status).toBe(409)
  const acknowledged = await writing
  // The backup was in the list before the old Postgres was stopped.
  const [prerestore] = await listed(id, 'prerestore')
  expect(prerestore).toBeDefined()
  await available(id)
  const task = await api.call('GET', `/tasks/${requested.headers.get('x-task-id')}`, undefined, { prefer: 'wait=30' })
  expect(task.body).toMatchObject({ name: 'restore-managed', status: 'succeeded', subject_id: id })

  expect(await api.connection(id)).toEqual(connection)
  expect((await api.read(id)).body).toMatchObject({
    id,
    name: 'shop',
    ip_allowlist: before.ip_allowlist,
    size: before.size,
  })
  expect(await query(connection, 'TABLE fruit')).toEqual([{ name: 'pear' }])
  expect(await query(connection, 'SELECT count(*)::int AS count FROM entry')).toEqual([{ count: 0 }])
  await query(connection, "INSERT INTO fruit VALUES ('plum')")
  const last = await eventually('the postrestore backup is completed', async () =>
    (await listed(id, 'postrestore')).find(({ status }) => status === 'completed'),
  )
  expect(last.status).toBe('completed')

  // No row is lost that was acknowledged before the data were replaced.
  const [retained] = await listed(id, 'prerestore')
  expect(retained?.status, retained?.metadata.error).toBe('completed')
  const connecting = connectRepeatedly(connection)
  expect((await restore(id, retained?.id ?? '')).body.status).toBe('available')
  // Clients that connect meanwhile are disconnected or must retry (class 57). The allowlist does not refuse them.
  const sqlStates = (await connecting.stop()).filter(state => /^[0-9A-Z]{5}$/.test(state))
  expect(sqlStates.filter(state => !state.startsWith('57'))).toEqual([])
  expect(sqlStates).not.toEqual([])
  const rows = await query<{ count: number }>(connection, 'SELECT count(*)::int AS count FROM entry')
  expect(rows[0]?.count).toBeGreaterThanOrEqual(acknowledged)
  expect(acknowledged).toBeGreaterThan(0)
  expect(await query(connection, "SELECT to_regclass('fruit') AS fruit")).toEqual([{ fruit: null }])

  // The previous volumes are retained and counted until a user requests their deletion.
  const previous = async () => (await api.call<Previous[]>('GET', `/databases/${id}/previous`)).body
  const isRetained = ({ reason, kept_until }: Previous) => reason === 'KeptForADay' && kept_until !== undefined
  const volumes = await eventually('both previous volumes are listed with the reason KeptForADay', async () => {
    const found = await previous()
    return found.length === 2 && found.every(isRetained) ? found : undefined
  })
  const used = async () => (await api.read(id)).body.storage_used ?? 0
  const counted = volumes.reduce((sum, { storage_used }) => sum + storage_used, 0)
  expect(await used()).toBeGreaterThanOrEqual(counted)
  for (const { incarnation } of volumes)
    expect((await api.call('DELETE', `/databases/${id}/previous/${incarnation}`)).status).toBe(204)
  await eventually('every previous volume is deleted', async () => (await previous()).length === 0)
  expect(await query(connection, 'SELECT count(*)::int AS count FROM entry')).toEqual(rows)
  await api.remove(id)
}, 240_000)

test('works for a suspended database, and is refused with the reason if it is impossible', async () => {
  const { id } = await create('resting')
  const other = await create('another')
  const connection = await api.connection(id)
  await query(connection, 'CREATE TABLE fruit AS SELECT 1 AS pears')
  const backup = await backUp(id)
  await query(connection, 'UPDATE fruit SET pears = 2')
  const wrong = await restore(other.id, backup.id)
  expect(wrong.status).toBe(400)
  expect(JSON.stringify(wrong.body)).toContain('belongs to another database')
  expect((await restore(id, crypto.randomUUID())).status).toBe(404)

  await api.call('POST', `/databases/${id}/suspend`, undefined, { prefer: 'wait=60' })
  expect((await restore(id, backup.id)).body.status).toBe('suspended')
  const resumed = await api.call<Database>('POST', `/databases/${id}/resume`, undefined, { prefer: 'wait=60' })
  expect(resumed.body.status).toBe('available')
  expect(await query(connection, 'TABLE fruit')).toEqual([{ pears: 1 }])
  await Promise.all([api.remove(id), api.remove(other.id)])
}, 240_000)

test('a deleted database is restored as a new one, from a retained backup', async () => {
  const { id } = await create('former')
  const connection = await api.connection(id)
  await query(connection, "CREATE TABLE fruit AS SELECT 'pear' AS name")
  const backup = await backUp(id)
  await api.remove(id, '?keep_backups=true')
  await eventually('the database is deleted', async () => (await api.read(id)).status === 404)

  const made = await api.create({
    name: 'latter',
    source_backup_id: backup.id,
    ip_allowlist: openTo(provider.clientAddress),
  })
  expect(made, JSON.stringify(made.body)).toMatchObject({ status: 200, body: { name: 'latter', status: 'available' } })
  const own = await api.connection(made.body.id)
  expect(own.password).not.toBe(connection.password)
  expect(await query(own, 'TABLE fruit')).toEqual([{ name: 'pear' }])
  await query(own, "INSERT INTO fruit VALUES ('plum')")
  await api.remove(made.body.id)
  expect((await api.call('DELETE', `/backups/${backup.id}`)).status).toBe(204)
  await eventually('the backup is deleted', async () => (await api.call('GET', `/backups/${backup.id}`)).status === 404)
}, 240_000)
