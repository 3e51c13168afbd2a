/** Requests to services through the API: where they go, what they carry, who may send them, and what is logged. */
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, childNames, labels, tenantNamespace } from '../../crds/index.ts'
import { sealedData } from '../../sealing/service-keys.ts'
import type { ResolveService } from '../agents.ts'
import { type Client, createStable, expectError, startClient, storedDatabase, until } from '../testing/client.ts'
import { bearer, configurationOf, sealingKey, startHarness } from '../testing/harness.ts'

const namespace = tenantNamespace('acme')
const hidden = 'NOT-IN-THE-LOG'
const llm = { provider: 'openai', model: 'm', api_key: 'k' }
const services = [
  { service_type: 'mcp', mcp_config: { init_tokens: 'first-token,second-token' } },
  { service_type: 'rest', rest_config: { db_schemas: 'public', db_anon_role: 'web_anon' } },
  {
    service_type: 'rag',
    rag_config: {
      ...{ embedding_llm: llm, completion_llm: llm },
      pipelines: [{ name: 'docs', tables: [{ table: 'd', text_column: 'c', vector_column: 'e' }] }],
    },
  },
]

type Seen = { method?: string; url?: string; headers: IncomingMessage['headers']; body: string }
let seen: Seen[] = []
let targets: Parameters<ResolveService>[0][] = []
let answer: (response: ServerResponse, seen: Seen) => void = response => response.end()
let address: { host: string; port: number } | undefined
const service = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const { method, url, headers } = request
  const one = { method, url, headers, body: Buffer.concat(chunks).toString() } as Seen
  seen.push(one)
  answer(response, one)
})

const json = (value: unknown) => (response: ServerResponse) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))

let client: Client
let id: string
const lines: string[] = []
const resolve: ResolveService = target => {
  targets.push(target)
  return address
}
beforeAll(async () => {
  service.listen(0, '127.0.0.1')
  await once(service, 'listening')
  address = { host: '127.0.0.1', port: (service.address() as AddressInfo).port }
  client = await startClient({ resolve, log: line => lines.push(line) })
  id = await createStable(client, 'shop', { services })
})
afterAll(async () => {
  await client?.close()
  service.close()
  service.closeAllConnections()
})
afterEach(() => {
  seen = []
  targets = []
  client.audit.length = 0
  answer = response => response.end()
})

const attempt = (type: string, body: object, of = `/databases/${id}`) =>
  client.call('POST', `${of}/services/${type}/try`, { body })

describe('a request', () => {
  test('to rest goes to its Service, without the token of the caller of the API', async () => {
    answer = json([{ id: 1 }])
    const { status, body } = await attempt('rest', { method: 'GET', path: 'films', query: 'limit=1' })
    expect([status, body]).toEqual([
      200,
      {
        ...{ status: 200, content_type: 'application/json', body: '[{"id":1}]' },
        ...{ truncated: false, milliseconds: expect.any(Number) },
      },
    ])
    expect(targets).toEqual([{ namespace, service: childNames.serviceAddress(id, 'rest'), port: 3000 }])
    expect(seen).toMatchObject([{ method: 'GET', url: '/films?limit=1', body: '' }])
    expect(Object.keys(seen[0]?.headers ?? {}).sort()).toEqual([
      ...['accept', 'accept-encoding', 'connection', 'host', 'user-agent', 'x-forwarded-for'],
    ])
  })

  test('to rest carries the given token and body', async () => {
    await attempt('rest', { method: 'PATCH', path: 'films', query: 'id=eq.1', body: '{"a":1}', token: 'x.y.z' })
    expect(seen).toMatchObject([{ method: 'PATCH', body: '{"a":1}', headers: { authorization: 'Bearer x.y.z' } }])
  })

  test('to mcp carries the first of its tokens, and returns the result of the tool', async () => {
    const result = { content: [{ type: 'text', text: 'rows' }], isError: true }
    answer = (response, { body }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(body).id, result })}\n\n`)
    }
    const { body } = await attempt('mcp', { tool: 'query_database', arguments: { query: 'SELECT 1' } })
    expect(body).toMatchObject({ status: 200, content_type: 'application/json', truncated: false })
    expect(JSON.parse(body.body)).toEqual(result)
    expect(targets).toMatchObject([{ port: 8080, service: childNames.serviceAddress(id, 'mcp') }])
    expect(seen).toMatchObject([{ url: '/mcp/v1', headers: { authorization: 'Bearer first-token' } }])
  })

  test('to mcp that it refuses is returned as it is', async () => {
    answer = response => void response.writeHead(401, { 'content-type': 'text/plain' }).end('no')
    expect((await attempt('mcp', { tool: 't' })).body).toMatchObject({ status: 401, body: 'no' })
  })

  test('to rag carries no token, and asks for sources', async () => {
    answer = json({ answer: 'Because.', sources: [] })
    const { body } = await attempt('rag', { pipeline: 'docs', query: 'Why?' })
    expect(JSON.parse(body.body)).toEqual({ answer: 'Because.', sources: [] })
    expect(targets).toMatchObject([{ port: 8081 }])
    expect(seen[0]?.headers.authorization).toBeUndefined()
    expect(JSON.parse(seen[0]?.body ?? '')).toMatchObject({ query: 'Why?', include_sources: true })
  })

  test('to a branch goes to the service of the branch, with the token of the branch', async () => {
    const branchId = crypto.randomUUID()
    const { spec } = await storedDatabase(client, 'shop')
    const own = spec.services.map((one, index) => ({ ...one, serviceId: `0000000${index}` }))
    const branch = await client.cluster.create('Branch', {
      ...{ apiVersion, kind: 'Branch', metadata: { name: 'shop-1', namespace, labels: { [labels.id]: branchId } } },
      spec: {
        ...{ databaseName: 'shop', databaseId: id, region: 'local', size: { name: 'small', version: 2 } },
        ...{ pgVersion: '18', services: own },
      },
    })
    const name = childNames.serviceSecret(branchId, '00000000')
    await client.cluster.create('Secret', {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name } },
      data: sealedData(sealingKey, { namespace, name }, { token: 'minted', password: 'p' }),
    })
    const at = `/databases/${id}/branches/${branchId}`
    await until(async () => (await attempt('mcp', { tool: 't' }, at)).status === 409)
    await client.cluster.replaceStatus('Branch', {
      ...branch,
      status: { phase: 'available', connectableAt: '2026-01-01T00:00:00Z' },
    })
    await until(async () => (await attempt('mcp', { tool: 't' }, at)).status === 200)
    expect(targets.at(-1)).toMatchObject({ service: childNames.serviceAddress(branchId, 'mcp') })
    expect(seen.at(-1)?.headers.authorization).toBe('Bearer minted')
    expect(client.audit.at(-1)?.service).toMatchObject({ database_id: id, branch_id: branchId, type: 'mcp' })
    expectError(await attempt('mcp', { tool: 't' }, `/databases/${crypto.randomUUID()}/branches/${branchId}`), 404)
  })
})

describe('a request is refused', () => {
  test.each([
    ['rest', { method: 'GET', path: '../mcp/v1' }, /^path: must not contain/],
    ['rest', { method: 'GET', path: 'http://other.test/' }, /^path: must not contain/],
    ['rest', { method: 'GET', path: 'a b' }, /^path: must be percent-encoded/],
    ['rest', { method: 'GET', path: 't', host: 'other.test' }, /^host: /],
    ['rest', { method: 'GET', path: 't', body: '{}' }, /^body: is for POST and PATCH only/],
    ['mcp', { tool: '' }, /^tool: /],
    ['mcp', { tool: 't', arguments: { a: 'x'.repeat(70_000) } }, /^arguments: must be at most 65536/],
    ['rag', { pipeline: '../x', query: 'q' }, /^pipeline: /],
    ['rag', { pipeline: 'docs', query: 'x'.repeat(32_001) }, /^query: /],
  ])('to %s with %j', async (type, body, message) => {
    expectError(await attempt(type, body), 400, message)
    expect(seen).toEqual([])
  })

  test('to mcp with arguments that nest too deep', async () => {
    const body = `{"tool":"t","arguments":{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`
    const answer = await client.call('POST', `/databases/${id}/services/mcp/try`, { body })
    expectError(answer, 400, /^arguments: .*must not nest too deep/)
    expect(seen).toEqual([])
  })

  test('to a type that does not exist, or that the database does not have', async () => {
    expectError(await attempt('sql', {}), 404)
    const without = await createStable(client, 'bare')
    const body = { method: 'GET', path: 't' }
    expectError(await attempt('rest', body, `/databases/${without}`), 404, 'rest service not found')
  })

  test('with an Idempotency-Key, since it would be sent again', async () => {
    const options = { body: { method: 'GET', path: 't' }, headers: { 'idempotency-key': 'one' } }
    const answer = await client.call('POST', `/databases/${id}/services/rest/try`, options)
    expectError(answer, 400, /^Idempotency-Key: not supported/)
  })

  test('if such requests are disabled', async () => {
    const configuration = configurationOf({ sql: { enabled: false } })
    const off = await startClient({ beside: client, resolve, configuration })
    const answer = await off.call('POST', `/databases/${id}/services/rest/try`, { body: { method: 'GET', path: 't' } })
    await off.close()
    expectError(answer, 403, /api\.sql\.enabled/)
    expect(seen).toEqual([])
  })

  test('to a service that cannot be reached', async () => {
    const before = address
    const body = { method: 'GET', path: 't' }
    address = undefined
    expectError(await attempt('rest', body), 503, /^rest does not run now/)
    address = { host: '127.0.0.1', port: 1 }
    expectError(await attempt('rest', body), 503, /^rest does not accept connections now/)
    address = { host: '192.0.2.1', port: 3000 }
    expectError(
      await attempt('rest', body),
      503,
      /NetworkPolicy admits the API: upgrade the operator|does not accept connections/,
    )
    address = before
    answer = response => void response.socket?.destroy()
    const broken = await attempt('rest', { method: 'DELETE', path: 't' })
    expectError(broken, 503, /^rest closed the connection/)
    expect(broken.headers['retry-after']).toBeUndefined()
  })
})

describe('limits', () => {
  test('at most four requests of a database run at once, and one that ends makes way', async () => {
    const waiting: ServerResponse[] = []
    answer = response => void waiting.push(response)
    const body = { method: 'GET', path: 't' }
    const running = Array.from({ length: 4 }, () => attempt('rest', body))
    await until(() => waiting.length === 4)
    const refused = await attempt('rest', body)
    expectError(refused, 429, /^the database already runs 4 requests to services/)
    expect(refused.headers['retry-after']).toBe('1')
    waiting[0]?.end()
    await Promise.race(running)
    answer = response => void response.end()
    expect((await attempt('rest', body)).status).toBe(200)
    for (const response of waiting) response.end()
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
  })

  test('a client that leaves ends the request to the service', async () => {
    const harness = await startHarness({ beside: client, resolve })
    const base = await harness.app.listen({ host: '127.0.0.1', port: 0 })
    const { promise: closed, resolve: close } = Promise.withResolvers<void>()
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    answer = response => {
      response.socket?.once('close', () => close())
      arrive()
    }
    const headers = { ...(await bearer()), 'content-type': 'application/json' }
    const sent = httpRequest(`${base}/managed/v1/databases/${id}/services/rest/try`, { method: 'POST', headers })
    sent.on('error', () => {})
    sent.end(JSON.stringify({ method: 'GET', path: 't' }))
    await arrived
    sent.destroy()
    await closed
    await until(() => harness.audit.at(-1)?.service?.result === 'canceled')
    await harness.close()
  })
})

describe('the logs', () => {
  test('have the type, and the method or tool, before and after; never a path, query, body, argument or token', async () => {
    const rest = { method: 'POST', path: hidden, query: hidden, body: hidden, token: hidden }
    await attempt('rest', rest)
    await attempt('mcp', { tool: 'query_database', arguments: { query: hidden } })
    await attempt('rag', { pipeline: 'docs', query: hidden })
    const common = { database_id: id }
    const twice = (entry: object) => [
      { ...common, ...entry },
      { ...common, ...entry, result: 'answered', status: 200 },
    ]
    expect(client.audit.map(({ service: one }) => one)).toEqual([
      ...twice({ type: 'rest', method: 'POST' }),
      ...twice({ type: 'mcp', tool: 'query_database' }),
      ...twice({ type: 'rag', pipeline: 'docs' }),
    ])
    const text = JSON.stringify(client.audit) + lines.join('\n')
    expect(text).not.toContain(hidden)
    expect(text).not.toContain('first-token')
  })

  test('have the failure of a request that was sent', async () => {
    answer = response => void response.socket?.destroy()
    await attempt('rest', { method: 'DELETE', path: 't' })
    expect(client.audit).toMatchObject([
      { status: 200, service: { method: 'DELETE' } },
      { status: 503, outcome: 'failed', service: { method: 'DELETE', result: 'failed' } },
    ])
  })
})
