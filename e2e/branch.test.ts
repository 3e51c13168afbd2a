/**
 * Branches of a real Postgres under writes: their content, their isolation from the source, and that their deletion
 * leaves nothing.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { labels } from '../crds/index.ts'
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

type Branch = {
  id: string
  name: string
  status: string
  depth: number
  domain: string
  connectable_at?: string
  deletion_requested_at?: string
  parent_branch_id?: string
  ip_allowlist: { state: string }
  connection?: Connection
}

let provider: Provider
let api: ApiClient
beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
})
afterAll(() => provider?.stop())

const create = async (name: string): Promise<Database> =>
  (await api.create({ name, ip_allowlist: openTo(provider.clientAddress) })).body
const wait = { prefer: 'wait=60' }
const branch = (id: string, input?: object) => api.call<Branch>('POST', `/databases/${id}/branches`, input, wait)
const made = async (id: string, input?: object): Promise<Branch> => {
  const { status, body } = await branch(id, input)
  expect(status).toBe(201)
  expect(body.status, JSON.stringify(body)).toBe('available')
  return body
}
const read = async (id: string, branchId: string, userType = 'application') =>
  (await api.call<Branch>('GET', `/databases/${id}/branches/${branchId}?user_type=${userType}`)).body
const connectionOf = async (id: string, branchId: string, userType?: string): Promise<Connection> => {
  const { connection } = await read(id, branchId, userType)
  if (connection === undefined) throw new Error('the branch has no connection')
  return connection
}
const remove = (id: string, branchId: string) =>
  api.call('DELETE', `/databases/${id}/branches/${branchId}`, undefined, wait)
const list = async (id: string, more = '') => (await api.call<Branch[]>('GET', `/databases/${id}/branches${more}`)).body
const countOf = async (id: string) => ((await api.read(id)).body as Database & { branch_count: number }).branch_count
/** Volumes and snapshots with this id. */
const storageOf = async (id: string) => {
  const selected = { labels: { [labels.database]: id } }
  const lists = [
    await provider.cluster.list('PersistentVolumeClaim', selected),
    await provider.cluster.list('PersistentVolume', selected),
    await provider.cluster.list('VolumeSnapshot', selected),
  ]
  return lists.flatMap(({ items }) => items.map(({ metadata }) => metadata.name))
}

const accounts = 100
const balance = 1_000

/**
 * Transfers money between accounts until it is stopped. Reports the number of transfers and the longest time between
 * two commits.
 */
async function transfers(connection: Connection, atOnce: number) {
  await query(
    connection,
    `CREATE TABLE account AS SELECT n AS id, ${balance} AS money FROM generate_series(1, ${accounts}) n`,
  )
  let isStopped = false
  let count = 0
  let last = performance.now()
  let longestMs = 0
  const work = async () => {
    const client = await connect(connection)
    const any = () => 1 + Math.floor(Math.random() * accounts)
    while (!isStopped) {
      const [low, high] = [any(), any()].sort((left, right) => left - right)
      await client.query('BEGIN')
      await client.query('UPDATE account SET money = money - 1 WHERE id = $1', [low])
      await client.query('UPDATE account SET money = money + 1 WHERE id = $1', [high])
      await client.query('COMMIT')
      const now = performance.now()
      longestMs = Math.max(longestMs, now - last)
      last = now
      count++
    }
    await client.end()
  }
  const working = Promise.all(Array.from({ length: atOnce }, work))
  return {
    count: () => count,
    stop: async () => {
      isStopped = true
      await working
      return { count, longestMs }
    },
  }
}
const total = async (connection: Connection): Promise<number> => {
  const [row] = await query<{ total: number }>(connection, 'SELECT sum(money)::int AS total FROM account')
  return row?.total ?? 0
}

test('has the data of one instant and its own address and passwords, and is isolated from its source', async () => {
  const { id } = await create('shop')
  const source = await api.connection(id)
  await query(source, "CREATE TABLE fruit AS SELECT 'pear' AS name")
  const requested = await branch(id, { display_name: 'Preview' })
  expect(requested).toMatchObject({
    status: 201,
    body: { status: 'available', depth: 1, connectable_at: expect.any(String) },
  })
  const task = await api.call('GET', `/tasks/${requested.headers.get('x-task-id')}`, undefined, { prefer: 'wait=30' })
  expect(task.body).toMatchObject({ name: 'create-branch', status: 'succeeded', subject_kind: 'branch' })
  const { id: branchId, connectable_at: connectableAt } = requested.body
  const own = await connectionOf(id, branchId)
  expect(own.port).not.toBe(source.port)
  expect(own.password).not.toBe(source.password)
  expect(await sqlState(() => query({ ...own, password: source.password }, 'SELECT 1'))).toBe('28P01')
  expect(await sqlState(() => query({ ...source, password: own.password }, 'SELECT 1'))).toBe('28P01')
  for (const role of ['admin', 'application_read_only'])
    expect(await query(await connectionOf(id, branchId, role), 'SELECT name FROM fruit')).toEqual([{ name: 'pear' }])

  await query(own, "INSERT INTO fruit VALUES ('plum')")
  await query(source, 'DROP TABLE fruit')
  expect(await query(own, 'SELECT name FROM fruit ORDER BY name')).toEqual([{ name: 'pear' }, { name: 'plum' }])
  expect(await query(source, "SELECT to_regclass('fruit') AS fruit")).toEqual([{ fruit: null }])
  expect(await countOf(id)).toBe(1)
  expect((await api.remove(id)).status).toBe(409)

  expect((await remove(id, branchId)).status).toBe(204)
  expect(await countOf(id)).toBe(0)
  const deleted = await eventually('the branch is deleted', async () => {
    const [found] = await list(id, '?include_deleted=true')
    return found?.status === 'deleted' && found
  })
  expect(deleted).toMatchObject({ connectable_at: connectableAt, deletion_requested_at: expect.any(String) })
  expect(await list(id)).toEqual([])
  await eventually('the storage of the branch is deleted', async () => (await storageOf(branchId)).length === 0)
  expect(await sqlState(() => query(own, 'SELECT 1'))).not.toBe('none')
  await api.remove(id)
}, 240_000)

test("has its own allowlist, which changes of the source's allowlist do not affect", async () => {
  const { id } = await create('rules')
  const [copied, closed] = await Promise.all([made(id), made(id, { ip_allowlist: { rules: [] } })])
  expect([copied, closed].map(({ ip_allowlist }) => ip_allowlist.state)).toEqual(['restricted', 'closed'])
  expect(await sqlState(async () => query(await connectionOf(id, closed.id), 'SELECT 1'))).toBe('28000')
  await api.change(id, { ip_allowlist: { rules: [] } })
  expect(await query(await connectionOf(id, copied.id), 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await api.remove(id, '?force=true')
  await eventually('the database is deleted', async () => (await api.read(id)).status === 404)
  for (const { id: branchId } of [copied, closed]) expect(await storageOf(branchId)).toEqual([])
}, 240_000)

test('branches of a database under writes, and of that branch, are consistent; a branch stays after the deletion of its source', async () => {
  const { id } = await create('ledger')
  const source = await api.connection(id)
  const load = await transfers(source, 4)
  await eventually('the load has made 50 transfers', async () => load.count() > 50)
  const first = await made(id)
  const [one] = [await connectionOf(id, first.id)]
  expect(await total(one)).toBe(accounts * balance)
  const inner = await transfersOn(one)
  const second = await made(id, { source_branch_id: first.id })
  await inner.stop()
  expect(second).toMatchObject({ depth: 2, parent_branch_id: first.id })
  const two = await connectionOf(id, second.id)
  expect(await total(two)).toBe(accounts * balance)
  await query(two, 'UPDATE account SET money = 0')
  expect(await total(one)).toBe(accounts * balance)
  expect((await remove(id, first.id)).status).toBe(204)
  expect(await total(two)).toBe(0)
  const { count, longestMs } = await load.stop()
  expect(await total(source)).toBe(accounts * balance)
  console.log(
    `${count} transfers beside two branches; the longest time between two of the source: ${Math.round(longestMs)} ms`,
  )
  await api.remove(id, '?force=true')
}, 240_000)

/** More transfers, on the accounts in the branch. */
async function transfersOn(connection: Connection) {
  const client = await connect(connection)
  let isStopped = false
  const working = (async () => {
    while (!isStopped) {
      await client.query('BEGIN; UPDATE account SET money = money - 1 WHERE id = 1')
      await client.query('UPDATE account SET money = money + 1 WHERE id = 2; COMMIT')
    }
    await client.end()
  })()
  return {
    stop: async () => {
      isStopped = true
      await working
    },
  }
}

test('expires at its time, and recovers after its Postgres was killed', async () => {
  const { id } = await create('timed')
  const retained = await made(id)
  const { body: short } = await branch(id, { expires_at: new Date(Date.now() + 15_000).toISOString() })
  const own = await connectionOf(id, retained.id)
  await query(own, 'CREATE TABLE kept AS SELECT 1 AS one')
  const before = await provider.postmaster(provider.namespace(), retained.id)
  await before.kill()
  await eventually('Postgres of the branch answers again', async () => (await query(own, 'TABLE kept')).length === 1)
  expect(await connectionOf(id, retained.id)).toEqual(own)
  await eventually(
    'the short-lived branch is deleted without a request',
    async () => (await read(id, short.id)).status === 'deleted',
  )
  expect((await read(id, retained.id)).status).toBe('available')
  expect(await countOf(id)).toBe(1)
  await api.remove(id, '?force=true')
}, 240_000)

test('can be requested by kubectl too, and reports why it is impossible', async () => {
  const { id, name } = await create('applied')
  const namespace = provider.namespace()
  const database = await provider.cluster.get('ManagedDatabase', { namespace, name })
  if (database === undefined) throw new Error('there is no database')
  const { region, size, pgVersion } = database.spec
  const apply = (branchName: string, more: object = {}) =>
    provider.cluster.create('Branch', {
      apiVersion: 'espalier.dev/v1alpha1',
      kind: 'Branch',
      metadata: { name: branchName, namespace },
      spec: {
        ...{ databaseName: name, databaseId: id, depth: 1, region, size, pgVersion },
        ...{ ipAllowlist: { rules: [] }, services: [], options: [], ...more },
      },
    })
  await apply('applied-preview')
  await apply('applied-wrong', { pgVersion: pgVersion === '17' ? '16' : '17' })
  const phaseOf = async (branchName: string) =>
    (await provider.cluster.get('Branch', { namespace, name: branchName }))?.status?.phase
  await eventually(
    'the Branch applied-preview is available',
    async () => (await phaseOf('applied-preview')) === 'available',
  )
  await eventually('the Branch applied-wrong is failed', async () => (await phaseOf('applied-wrong')) === 'failed')
  const [found] = (await list(id)).filter(one => one.name === 'applied-preview')
  const made = await provider.cluster.get('Branch', { namespace, name: 'applied-preview' })
  expect(made?.status?.domain).toMatch(new RegExp(`^applied-preview-${found?.id.replaceAll('-', '').slice(-8)}\\.`))
  await provider.cluster.delete('Branch', { namespace, name: 'applied-preview' })
  await eventually(
    'the Branch applied-preview is deleted',
    async () => (await phaseOf('applied-preview')) === undefined,
  )
  await api.remove(id, '?force=true')
}, 240_000)
