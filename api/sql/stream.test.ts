/** Cancellation, backpressure, connection limits, accounts, and connection faults. */
import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, childNames, labels, tenantNamespace } from '../../crds/index.ts'
import { expectError, storedDatabase, until } from '../testing/client.ts'
import { bearer, configurationOf, giveCredentials, startHarness, token } from '../testing/harness.ts'
import { limitOfDatabase } from './limits.ts'
import { linesOf, type SqlDatabase, startSqlDatabase } from './testing/database.ts'

let database: SqlDatabase
beforeAll(async () => {
  database = await startSqlDatabase()
})
afterAll(() => database?.stop())
afterEach(() => until(async () => (await database.sessions()).length === 0))

/** Sends a request, and returns a function that disconnects. */
function requestOf(url: string, headers: Record<string, string>): () => void {
  const sent = request(url, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' } })
  sent.on('error', () => {})
  sent.end(JSON.stringify({ text: 'SELECT 1' }))
  return () => void sent.destroy()
}

const rowsOf = (text: string) => linesOf(text).flatMap(line => (line.type === 'rows' ? line.rows : []))

describe('a client that disconnects', () => {
  test('cancels the running statement', async () => {
    const controller = new AbortController()
    const response = await database.send(
      { text: 'SELECT pg_sleep(600)', timeout_seconds: 600 },
      { signal: controller.signal },
    )
    expect(response.status).toBe(200)
    const running = async () =>
      (await database.sessions()).some(({ query, state }) => state === 'active' && query.includes('pg_sleep'))
    await until(running)
    const started = performance.now()
    controller.abort()
    await until(async () => (await database.sessions()).length === 0)
    expect(performance.now() - started).toBeLessThan(5_000)
    expect(database.postgres.log()).toMatch(/canceling statement due to user request/)
    await until(() => database.client.audit.at(-1)?.sql?.result === 'canceled')
  })

  test('ends a result that it has not read', async () => {
    const controller = new AbortController()
    await database.send(
      {
        text: "SELECT generate_series(1, 10000000), repeat('x', 1000)",
        max_rows: 10_000_000,
        timeout_seconds: 600,
      },
      { signal: controller.signal },
    )
    // Postgres waits for the next fetch, because the client does not read its rows.
    let waited = 0
    await until(async () => {
      waited = (await database.sessions())[0]?.wait === 'ClientRead' ? waited + 1 : 0
      return waited === 20
    })
    controller.abort()
    await until(async () => (await database.sessions()).length === 0)
  })
})

describe('a client that disconnects before the response', () => {
  const connections = async () =>
    /^espalier_api_sql_connections (\d+)$/m.exec(await database.client.metrics.registry.metrics())?.[1]

  test('ends the login', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo // a TCP server has an AddressInfo
    const harness = await startHarness({ beside: database.client, resolve: () => ({ host: '127.0.0.1', port }) })
    const base = await harness.app.listen({ host: '127.0.0.1', port: 0 })
    const accepted = once(silent, 'connection') as Promise<[Socket]>
    const abandon = requestOf(`${base}/managed/v1/databases/${database.id}/sql`, await bearer())
    const [socket] = await accepted
    const closed = once(socket.resume(), 'close')
    const started = performance.now()
    abandon()
    await closed
    expect(performance.now() - started).toBeLessThan(5_000)
    await until(async () => /^espalier_api_sql_connections 0$/m.test(await harness.metrics.registry.metrics()))
    await harness.close()
    silent.close()
  })

  test('leaves no connection open, whenever it disconnects', async () => {
    const headers = await bearer()
    for (let n = 0; n < 16; n++) {
      const abandon = requestOf(database.url, headers)
      await sleep(2 + n * 3)
      abandon()
    }
    await until(async () => (await connections()) === '0' && (await database.sessions()).length === 0)
    expect(await database.rows('SELECT 1')).toEqual([['1']])
    const { audit } = database.client
    const ids = (isEnd: boolean) =>
      audit
        .filter(({ sql }) => sql !== undefined && 'result' in sql === isEnd)
        .map(entry => entry.request_id)
        .sort()
    expect(ids(true)).toEqual(ids(false))
  })
})

test('the API fetches nothing while the client does not read, and sends everything when the client reads', async () => {
  const text = "SELECT nextval('counted'), repeat('x', 1000) FROM generate_series(1, 30000)"
  await database.as('app', 'CREATE SEQUENCE counted CACHE 1')
  const response = await database.send({ text, mode: 'write', max_rows: 1_000_000 })
  const produced = async () => Number((await database.as('app', 'SELECT last_value FROM counted'))[0].last_value)
  let before = -1
  // Waits until the buffers are full.
  await until(async () => {
    const now = await produced()
    const isStill = now === before
    before = now
    if (!isStill) await new Promise(resolve => setTimeout(resolve, 200))
    return isStill
  })
  expect(before).toBeLessThan(20_000)
  expect(rowsOf(await response.text())).toHaveLength(30_000)
  expect(await produced()).toBe(30_000)
})

describe('connections', () => {
  test('of one database are limited; above the limit, the API returns 429', async () => {
    const controller = new AbortController()
    const limit = limitOfDatabase(40)
    expect(limit).toBe(4)
    const open = []
    for (let n = 0; n < 5; n++) {
      const { status } = await database.send(
        { text: 'SELECT pg_sleep(600)', timeout_seconds: 600 },
        { signal: controller.signal },
      )
      open.push(status)
    }
    expect(new Set(open)).toEqual(new Set([200, 429]))
    const refused = await database.sql({ text: 'SELECT 1' })
    expectError(
      { ...refused, headers: { 'x-request-id': 'x' } },
      429,
      /^the database already runs \d SQL requests, which is its limit/,
    )
    controller.abort()
    await until(async () => (await database.sessions()).length === 0)
    await until(async () => (await database.sql({ text: 'SELECT 1' })).status === 200)
  })

  test("are limited to a tenth of the size's connections, at least one and at most four", () => {
    expect([undefined, 0, 9, 10, 25, 40, 1000].map(limitOfDatabase)).toEqual([1, 1, 1, 1, 2, 4, 4])
  })
})

test("a request for another account's database returns 404", async () => {
  const { client, id } = database
  const body = { text: 'SELECT 1' }
  for (const path of [`/databases/${id}/sql`, `/databases/${id}/branches/${id}/sql`])
    expectError(await client.call('POST', path, { body, claims: { tenant: 'other' } }), 404)
  expectError(await client.call('POST', `/databases/${id}/sql`, { body, token: null }), 401)
})

test('a branch has its own endpoint, and must be available', async () => {
  const { client, id, postgres } = database
  const branchId = crypto.randomUUID()
  const namespace = tenantNamespace('acme')
  const created = await client.cluster.create('Branch', {
    apiVersion,
    kind: 'Branch',
    metadata: { name: 'shop-b', namespace, labels: { [labels.id]: branchId } },
    spec: {
      databaseName: 'shop',
      databaseId: id,
      region: 'local',
      size: { name: 'small', version: 2 },
      pgVersion: '18',
    },
  })
  const path = `/databases/${id}/branches/${branchId}/sql`
  const call = () => client.call('POST', path, { body: { text: 'SELECT 1' } })
  await until(async () => (await call()).status === 409)
  expectError(await call(), 409, /^the branch is creating/)
  await giveCredentials(client.cluster, namespace, branchId)
  await client.cluster.replaceStatus('Branch', {
    ...created,
    status: { phase: 'available', endpoint: { host: '127.0.0.1', port: postgres.port } },
  })
  await until(async () => (await call()).status !== 409)
  // This Postgres has the database's certificate, so the API refuses it as the branch's Postgres.
  expectError(await call(), 503, /does not accept connections/)
  expect(childNames.service(branchId)).not.toBe(childNames.service(id))
})

test('a suspended database causes a 409', async () => {
  const { client, id } = database
  const stored = await storedDatabase(client, 'shop')
  await client.cluster.replaceStatus('ManagedDatabase', {
    ...stored,
    ...(stored.status && { status: { ...stored.status, phase: 'suspended' } }),
  })
  const call = () => client.call('POST', `/databases/${id}/sql`, { body: { text: 'SELECT 1' } })
  await until(async () => (await call()).status === 409)
  expectError(await call(), 409, /suspended|resuming/)
  const now = await storedDatabase(client, 'shop')
  await client.cluster.replaceStatus('ManagedDatabase', { ...now, ...(stored.status && { status: stored.status }) })
  await until(async () => (await call()).status === 200)
})

describe('a database', () => {
  const send = async (address: { host: string; port: number } | undefined) => {
    const harness = await startHarness({ beside: database.client, resolve: () => address })
    try {
      return await harness.app.inject({
        method: 'POST',
        url: `/managed/v1/databases/${database.id}/sql`,
        headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
        payload: JSON.stringify({ text: 'SELECT 1' }),
      })
    } finally {
      await harness.close()
    }
  }
  test.each([
    ['without a pod', undefined, /does not run now/],
    ['that refuses connections', { host: '127.0.0.1', port: 1 }, /does not accept connections/],
    // TEST-NET-1 (RFC 5737): no host answers, as if a NetworkPolicy dropped the packets.
    [
      'that does not answer',
      { host: '192.0.2.1', port: 5432 },
      /NetworkPolicy admits the API: upgrade the operator|does not accept connections/,
    ],
  ])('%s causes a 503', async (_, address, message) => {
    const answer = await send(address)
    expect(answer.statusCode).toBe(503)
    expect(answer.json().message).toMatch(message)
    expect(answer.headers['retry-after']).toBeDefined()
  })
})

test('a request to a disabled endpoint returns 403', async () => {
  const harness = await startHarness({
    beside: database.client,
    configuration: configurationOf({ sql: { enabled: false } }),
  })
  const answer = await harness.app.inject({
    method: 'POST',
    url: `/managed/v1/databases/${database.id}/sql`,
    headers: { authorization: `Bearer ${await token()}`, 'content-type': 'application/json' },
    payload: JSON.stringify({ text: 'SELECT 1' }),
  })
  await harness.close()
  expect([answer.statusCode, answer.json().message]).toEqual([403, expect.stringMatching('api.sql.enabled')])
})
