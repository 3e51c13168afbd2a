/** A database with services, used by the usual clients through the gateway. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { PostgrestClient } from '@supabase/postgrest-js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, eventually, openTo, query } from './client.ts'
import type { Fetch } from './https-fetch.ts'
import { startProvider } from './provider.ts'
import type { Provider } from './providers/provider.ts'
import {
  failuresOfNow,
  fetchingFrom,
  isAway,
  load,
  type Reached,
  readServed,
  requestsTo,
  type Served,
  serviceOf,
  stopAll,
  untilRunning,
} from './service-load.ts'

let provider: Provider
let api: ApiClient
let fetching: Fetch
/** The database once its services run. */
let database: Served
const restConfig = { db_schemas: 'public', db_anon_role: 'web_anonymous' }

beforeAll(async () => {
  provider = await startProvider()
  api = await provider.client()
  fetching = await fetchingFrom(provider)
  const toThis = openTo(provider.clientAddress)
  const { status, body } = await api.create({
    name: 'served',
    ip_allowlist: toThis,
    services: [
      { service_type: 'mcp', ip_allowlist: toThis },
      { service_type: 'rest', ip_allowlist: toThis, rest_config: restConfig },
    ],
  })
  expect(status, JSON.stringify(body)).toBe(200)
  database = await eventually('the database is available and its services run', async () => {
    const found = await read(body.id)
    return found.status === 'available' && found.services.every(({ state }) => state === 'running') && found
  })
})
afterAll(async () => {
  if (database !== undefined) await api.remove(database.id)
  await provider?.stop()
})

const read = (id: string): Promise<Served> => readServed(api, `/databases/${id}`)

async function callTool(service: Reached, sql: string): Promise<string> {
  const client = new Client({ name: 'e2e', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${service.uri}/v1`), {
      fetch: fetching,
      requestInit: { headers: { authorization: `Bearer ${service.mcp_config?.init_tokens}` } },
    }),
  )
  try {
    return JSON.stringify(await client.callTool({ name: 'query_database', arguments: { query: sql } }))
  } finally {
    await client.close()
  }
}

test('MCP and REST clients can use the services through the gateway', async () => {
  await query(await api.connection(database.id, 'admin'), 'CREATE ROLE web_anonymous NOLOGIN')
  await query(
    await api.connection(database.id),
    `CREATE TABLE fruit (id int PRIMARY KEY, name text); INSERT INTO fruit VALUES (1, 'pear');
     GRANT SELECT ON fruit TO web_anonymous`,
  )
  const rest = new PostgrestClient(serviceOf(database, 'rest').uri, { fetch: fetching })
  await eventually('REST returns the row of the table', async () => {
    const { data } = await rest.from('fruit').select('name')
    return data?.length === 1 && data[0]?.name === 'pear'
  })
  expect(await callTool(serviceOf(database, 'mcp'), 'SELECT name FROM fruit')).toContain('pear')
})

type Tried = { status: number; body: string; truncated: boolean }

/** By the API, from inside the cluster. */
async function tried(type: 'rest' | 'mcp', body: object, of = `/databases/${database.id}`): Promise<Tried> {
  const answer = await api.call<Tried>('POST', `${of}/services/${type}/try`, body)
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer.body
}

test('the API sends requests to services', async () => {
  const fruit = { method: 'GET', path: 'fruit', query: 'select=name' }
  // On Kubernetes, the network may take a moment to apply the policy of a new pod.
  await eventually('the API returns 200 for a request to REST', async () => {
    const path = `/databases/${database.id}/services/rest/try`
    return (await api.call('POST', path, fruit)).status === 200
  })
  const { status, body } = await tried('rest', fruit)
  expect([status, JSON.parse(body)]).toEqual([200, [{ name: 'pear' }]])
  expect(await tried('rest', { ...fruit, method: 'DELETE', query: 'id=eq.1' })).toMatchObject({ status: 400 })

  const call = { tool: 'query_database', arguments: { query: 'SELECT name FROM fruit' } }
  const result = await tried('mcp', call)
  expect(result).toMatchObject({ status: 200, truncated: false })
  expect(JSON.parse(result.body).content[0].text).toContain('pear')
  const unknown = await tried('mcp', { tool: 'no_such_tool' })
  expect(JSON.stringify(JSON.parse(unknown.body))).toMatch(/no_such_tool/)
})

type Metrics = { series: { name: string; columns: string[]; values: (string | number | null)[][] }[] }

/** The newest row of a series that has values, by its columns. */
async function newestOf(service: string, name: string): Promise<Record<string, string | number | null> | undefined> {
  const query = `service=${service}&interval=1 second`
  const { status, body } = await api.call<Metrics>('GET', `/databases/${database.id}/metrics?${query}`)
  expect(status, JSON.stringify(body)).toBe(200)
  const found = body.series.find(series => series.name === name)
  const row = found?.values.at(-1)
  if (row === undefined) return undefined
  return Object.fromEntries(found?.columns.map((column, index) => [column, row[index] ?? null]) ?? [])
}

test('services are measured', async () => {
  const { mcp, rest } = requestsTo(database, fetching)
  expect(await failuresOfNow({ mcp, rest })).toEqual([])
  // A sample is taken every 30 seconds. No earlier test may send a request that REST answers with 5xx.
  const requests = await eventually('REST has a sample taken after its start', () => newestOf('rest', 'requests'))
  expect(requests.error_ratio === null || requests.error_ratio === 0).toBe(true)
  for (const service of ['mcp', 'rest']) {
    const memory = await eventually(`${service} has a sample of its memory`, () => newestOf(service, 'memory'))
    expect(memory.bytes).toBeGreaterThan(20_000_000)
    expect((await newestOf(service, 'pods'))?.sampled).toBeGreaterThanOrEqual(1)
  }
  expect((await newestOf('rest', 'pool'))?.size).toBeGreaterThan(0)
  const toRag = await api.call('GET', `/databases/${database.id}/metrics?service=rag`)
  expect(toRag.status).toBe(400)
})

test('REST without a JWT secret reports that for a request with a token', async () => {
  const request = { method: 'GET', path: 'fruit', query: 'select=name', token: 'not.a.jwt' }
  expect(await tried('rest', request)).toMatchObject({ status: 500, body: expect.stringContaining('JWT secret') })
})

const raw = (service: { uri: string }, path: string, token?: string) =>
  fetching(`${service.uri}${path}`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } })

/** Requests to both services, one after another, during an action on their database. */
function loadBoth(accepts?: (error: unknown) => boolean) {
  const send = requestsTo(database, fetching)
  return [load('mcp', send.mcp, accepts), load('rest', send.rest, accepts)]
}
async function servesAgain(): Promise<void> {
  const { mcp, rest } = requestsTo(database, fetching)
  expect(await failuresOfNow({ mcp, rest })).toEqual([])
}

test('a branch has its own services, which refuse the tokens of the source', async () => {
  const loads = loadBoth()
  const { body: branch } = await api.call<Served>(
    'POST',
    `/databases/${database.id}/branches`,
    {},
    { prefer: 'wait=60' },
  )
  const path = `/databases/${database.id}/branches/${branch.id}`
  const ready = await eventually('the services of the branch run', async () => {
    const { body } = await api.call<Served>('GET', path)
    return body.services.every(({ state }) => state === 'running') && body
  })
  const [mcp, rest] = [serviceOf(ready, 'mcp'), serviceOf(ready, 'rest')]
  expect(await callTool(mcp, 'SELECT name FROM fruit')).toContain('pear')
  expect(mcp.mcp_config?.init_tokens).not.toBe(serviceOf(database, 'mcp').mcp_config?.init_tokens)
  expect(mcp.uri).not.toBe(serviceOf(database, 'mcp').uri)
  await expect(
    callTool({ ...mcp, mcp_config: serviceOf(database, 'mcp').mcp_config ?? {} }, 'SELECT 1'),
  ).rejects.toThrow()
  expect((await raw(rest, '/fruit')).status).toBe(200)
  const call = { tool: 'query_database', arguments: { query: 'SELECT name FROM fruit' } }
  expect((await tried('mcp', call, path)).body).toContain('pear')
  expect((await api.call('DELETE', path, undefined, { prefer: 'wait=60' })).status).toBe(204)
  expect(await stopAll(loads)).toEqual([])
})

test('a restore in place keeps the services, which serve the restored rows', async () => {
  const stones = 'CREATE TABLE stone (name text); GRANT SELECT ON stone TO web_anonymous'
  await query(await api.connection(database.id), stones)
  const { body: backup } = await api.call<{ id: string; status: string }>(
    'POST',
    `/databases/${database.id}/backup`,
    { kind: 'hot' },
    { prefer: 'wait=60' },
  )
  expect(backup.status).toBe('completed')
  await query(await api.connection(database.id), 'DROP TABLE stone; DELETE FROM fruit')
  const loads = loadBoth(isAway)
  await api.call('POST', `/databases/${database.id}/restore`, { backup_id: backup.id }, { prefer: 'wait=60' })
  const restored = await eventually('the database is available after the restore', async () => {
    const found = await read(database.id)
    return found.status === 'available' && found
  })
  expect(restored.services).toEqual(database.services)
  expect(await stopAll(loads)).toEqual([])
  await servesAgain()
  await eventually(
    'REST serves the restored table',
    async () => (await raw(serviceOf(database, 'rest'), '/stone')).status === 200,
  )
  expect(await (await raw(serviceOf(database, 'rest'), '/fruit')).text()).toContain('pear')
  expect(await callTool(serviceOf(database, 'mcp'), 'SELECT name FROM fruit')).toContain('pear')
})

test('a service of a suspended database answers 503, and serves again after it is resumed', async () => {
  const loads = loadBoth(isAway)
  await api.call('POST', `/databases/${database.id}/suspend`, undefined, { prefer: 'wait=60' })
  const refused = await eventually('REST answers 503', async () => {
    const answer = await raw(serviceOf(database, 'rest'), '/fruit')
    return answer.status === 503 && answer
  })
  expect(await refused.text()).toContain('suspended')
  await api.call('POST', `/databases/${database.id}/resume`, undefined, { prefer: 'wait=60' })
  await eventually(
    'REST serves the table again',
    async () => (await raw(serviceOf(database, 'rest'), '/fruit')).status === 200,
  )
  expect((await read(database.id)).services.map(({ state }) => state)).toEqual(['running', 'running'])
  await untilRunning(api, database.id)
  expect(await stopAll(loads)).toEqual([])
  for (const { accepted } of loads) expect(accepted()).toBeGreaterThan(0)
  await servesAgain()
})

test('no request fails while a change replaces a service, or while passwords are rotated', async () => {
  await query(await api.connection(database.id), "INSERT INTO fruit VALUES (2, 'plum')")
  const loads = loadBoth()
  const rest = { service_type: 'rest', rest_config: { ...restConfig, max_rows: 1 } }
  const { status, body } = await api.change(database.id, { services: [{ service_type: 'mcp' }, rest] })
  expect(status, JSON.stringify(body)).toBe(200)
  await eventually('REST returns one row', async () => (await requestsTo(database, fetching).rest()) === 1)
  await untilRunning(api, database.id)
  for (const role of ['app', 'app_read_only']) {
    const path = `/databases/${database.id}/roles/${role}/rotate-password`
    expect((await api.call('POST', path, undefined, { prefer: 'wait=60' })).status).toBe(204)
    await untilRunning(api, database.id)
  }
  expect(await stopAll(loads)).toEqual([])
  for (const { count } of loads) expect(count()).toBeGreaterThan(10)
  await servesAgain()
}, 120_000)

test('a service that a change omits is removed, and an empty allowlist closes the other service', async () => {
  const rest = { service_type: 'rest', ip_allowlist: { rules: [] }, rest_config: restConfig }
  const { status, body } = await api.change(database.id, { services: [rest] })
  expect(status, JSON.stringify(body)).toBe(200)
  await eventually('the database is available with one service', async () => {
    const found = await read(database.id)
    return found.status === 'available' && found.services.length === 1
  })
  expect((await raw(serviceOf(database, 'rest'), '/fruit')).status).toBe(403)
  expect((await raw(serviceOf(database, 'mcp'), '/v1')).status).toBe(404)
})
