/** The API as a server on a real socket: long polls, shutdown, invalid requests, and the bytes sent. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Cluster } from '../cluster/index.ts'
import { definitionOf } from '../crds/definition.ts'
import { declarations, teardownFinalizer, tenantNamespace } from '../crds/index.ts'
import { openStore, type Store } from '../embedded/store/index.ts'
import { type Api, startApi } from './index.ts'
import { until } from './testing/client.ts'
import { bearer, configurationOf, readyTenants, reconcile, seed } from './testing/harness.ts'

const logger = pino({ level: 'silent' })
let directory: string
let store: Store
let cluster: Cluster
let api: Api
let stopTenants: () => Promise<void>

const start = (changes: Record<string, unknown> = {}) =>
  startApi({
    cluster,
    configuration: configurationOf({ listen: { port: 0 }, auditFile: join(directory, 'audit.log'), ...changes }),
    logger,
  })

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'espalier-api-'))
  store = await openStore({ definitions: Object.values(declarations).map(definitionOf), logger })
  cluster = store.connect('test')
  await seed(cluster)
  stopTenants = await readyTenants(cluster, logger)
  api = await start()
})
afterEach(async () => {
  await api.stop()
  await stopTenants()
  await store.close()
  await rm(directory, { recursive: true })
})

type Options = { headers?: Record<string, string>; body?: unknown; signal?: AbortSignal }
async function call(method: string, path: string, { headers = {}, body, signal }: Options = {}) {
  const json = body === undefined ? {} : { 'content-type': 'application/json' }
  const response = await fetch(`${api.address}/managed/v1${path}`, {
    method,
    headers: { ...(await bearer()), ...json, ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}
const create = (name: string, headers: Record<string, string> = {}) =>
  call('POST', '/databases', { body: { name, region: 'local', size: 'small' }, headers })

/** Sends bytes unchanged and returns the complete response. */
async function raw(text: string): Promise<string> {
  const socket = await open()
  socket.write(text)
  let received = ''
  for await (const chunk of socket) received += chunk
  return received
}
const open = async (): Promise<Socket> => {
  const { hostname, port } = new URL(api.address)
  const socket = connect(Number(port), hostname)
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return socket
}

/**
 * Sends a request without its body, and waits until the server has started to answer. `received` is the data after
 * that.
 */
async function begin(
  method: string,
  path: string,
  headers: Record<string, string>,
): Promise<{ socket: Socket; received: () => string }> {
  const socket = await open()
  const all = { Host: 'x', Authorization: (await bearer()).authorization, Expect: '100-continue', ...headers }
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}`)
  socket.write(`${[`${method} /managed/v1${path} HTTP/1.1`, ...head].join('\r\n')}\r\n\r\n`)
  let text = ''
  socket.on('data', chunk => {
    text += chunk
  })
  const proceed = 'HTTP/1.1 100 Continue\r\n\r\n'
  await until(() => text.startsWith(proceed))
  return { socket, received: () => text.slice(proceed.length) }
}

const jsonOf = (length: number) => ({ 'Content-Type': 'application/json', 'Content-Length': String(length) })

describe('Prefer: wait', () => {
  test('answers a create as soon as the database is stable', async () => {
    const pending = create('waited', { prefer: 'wait=30' })
    const began = performance.now()
    const key = { namespace: tenantNamespace('acme'), name: 'waited' }
    await until(async () => (await cluster.get('ManagedDatabase', key)) !== undefined)
    await reconcile(cluster, 'acme', 'waited')
    const { status, body, headers } = await pending
    expect({ status, phase: body.status }).toEqual({ status: 200, phase: 'available' })
    expect(headers.get('preference-applied')).toBe('wait=30')
    expect(performance.now() - began).toBeLessThan(5000)
  })

  test('ends after its time, with the current state', async () => {
    const { status, body, headers } = await create('slow', { prefer: 'respond-async, wait=0' })
    expect({ status, phase: body.status, applied: headers.get('preference-applied') }).toEqual({
      status: 200,
      phase: 'creating',
      applied: 'wait=0',
    })
    const read = await call('GET', `/databases/${body.id}`, { headers: { prefer: 'wait="1"' } })
    expect(read.body.status).toBe('creating')
    expect(
      (await call('GET', `/databases/${body.id}`, { headers: { prefer: 'wait=nonsense' } })).headers.get(
        'preference-applied',
      ),
    ).toBeNull()
  })

  test('delays a patch until it is applied, and a delete until everything is deleted', async () => {
    const { body } = await create('held')
    await reconcile(cluster, 'acme', 'held')
    const key = { namespace: tenantNamespace('acme'), name: 'held' }
    const object = await cluster.get('ManagedDatabase', key)
    if (object === undefined) throw new Error('not stored')
    await cluster.replace('ManagedDatabase', {
      ...object,
      metadata: { ...object.metadata, finalizers: [teardownFinalizer] },
    })
    await until(async () => (await call('GET', `/databases/${body.id}`)).body.status === 'available')
    const rules = { rules: [{ cidr: '10.0.0.1' }] }
    const patching = call('PATCH', `/databases/${body.id}`, {
      body: { ip_allowlist: rules },
      headers: { prefer: 'wait=60' },
    })
    await until(async () => (await cluster.get('ManagedDatabase', key))?.spec.ipAllowlist.rules.length === 1)
    await reconcile(cluster, 'acme', 'held')
    expect((await patching).body).toMatchObject({ status: 'available', ip_allowlist: { state: 'restricted' } })

    const deleting = call('DELETE', `/databases/${body.id}`, { headers: { prefer: 'wait=60' } })
    await until(async () => (await cluster.get('ManagedDatabase', key))?.metadata.deletionTimestamp !== undefined)
    const going = await cluster.get('ManagedDatabase', key)
    if (going === undefined) throw new Error('gone too early')
    await cluster.replace('ManagedDatabase', { ...going, metadata: { ...going.metadata, finalizers: [] } })
    expect((await deleting).status).toBe(204)
    expect((await call('GET', `/databases/${body.id}`)).status).toBe(404)
  })

  test('ends when the client disconnects', async () => {
    const { body } = await create('left')
    const key = { namespace: tenantNamespace('acme'), name: 'left' }
    const object = await cluster.get('ManagedDatabase', key)
    if (object === undefined) throw new Error('not stored')
    const metadata = { ...object.metadata, finalizers: [teardownFinalizer] }
    await cluster.replace('ManagedDatabase', { ...object, metadata })
    const { socket } = await begin('DELETE', `/databases/${body.id}`, { Prefer: 'wait=60' })
    await until(async () => (await cluster.get('ManagedDatabase', key))?.metadata.deletionTimestamp !== undefined)
    const polls = async () => (await api.registry.metrics()).match(/^espalier_api_long_polls (\d+)$/m)?.[1]
    await until(async () => (await polls()) === '1')
    socket.destroy()
    await until(async () => (await polls()) === '0')
  })

  test('the audit log has a write once, before its wait ends, and unchanged if the wait fails', async () => {
    const { body } = await create('noted')
    const key = { namespace: tenantNamespace('acme'), name: 'noted' }
    const object = await cluster.get('ManagedDatabase', key)
    if (object === undefined) throw new Error('not stored')
    await cluster.replace('ManagedDatabase', {
      ...object,
      metadata: { ...object.metadata, finalizers: [teardownFinalizer] },
    })
    const lines = async () =>
      (await readFile(join(directory, 'audit.log'), 'utf8'))
        .split('\n')
        .filter(line => line !== '')
        .map(line => JSON.parse(line))
        .filter(({ method }) => method === 'DELETE')
    const { socket, received } = await begin('DELETE', `/databases/${body.id}`, { Prefer: 'wait=60' })
    await until(async () => (await lines()).length === 1)
    expect(received()).toBe('')
    expect(await lines()).toMatchObject([
      { method: 'DELETE', subject_id: body.id, status: 204, outcome: 'accepted', task_id: expect.any(String) },
    ])
    socket.destroy()
    await api.stop()
    expect(await lines()).toHaveLength(1)

    // While a create waits, the log has the id of its database before the client has it.
    api = await start()
    const creating = create('waited', { Prefer: 'wait=60' })
    const created = async () =>
      (await readFile(join(directory, 'audit.log'), 'utf8')).match(
        /"subject_id":"([^"]+)","task_id":"[^"]+","status":200/g,
      )
    await until(async () => (await created())?.length === 2)
    await api.stop()
    expect((await creating).status).toBe(200)
    expect(await created()).toHaveLength(2)
    api = await start()
  })
})

describe('shutdown', () => {
  test('answers long polls immediately, completes requests in flight, then accepts nothing more', async () => {
    const { body } = await create('polled')
    const path = `/databases/${body.id}`
    const polls = await Promise.all([1, 2, 3].map(() => begin('GET', path, { Prefer: 'wait=60' })))
    const text = JSON.stringify({ name: 'inflight', region: 'local', size: 'small' })
    const posting = await begin('POST', '/databases', jsonOf(text.length))
    posting.socket.write(text.slice(0, 5))
    const began = performance.now()
    const stopping = api.stop()
    await until(() => polls.every(poll => poll.received().includes('"status":"creating"')))
    posting.socket.write(text.slice(5))
    await stopping
    await until(() => posting.received().startsWith('HTTP/1.1 200 '))
    expect(performance.now() - began).toBeLessThan(5000)
    await expect(fetch(`${api.address}/healthz`)).rejects.toThrow()
    expect(
      (await cluster.get('ManagedDatabase', { namespace: tenantNamespace('acme'), name: 'inflight' }))?.spec.region,
    ).toBe('local')
  })

  test('does not wait for a client that never finishes', async () => {
    await api.stop()
    api = await start({ shutdownSeconds: 0.2 })
    const { socket } = await begin('POST', '/databases', jsonOf(100))
    socket.on('error', () => {})
    const began = performance.now()
    await api.stop()
    expect(performance.now() - began).toBeLessThan(5000)
    socket.destroy()
  })

  test('a port in use causes a start error, and leaves nothing running', async () => {
    const { port } = new URL(api.address)
    await expect(start({ listen: { port: Number(port) } })).rejects.toThrow(/EADDRINUSE/)
  })
})

describe('the socket', () => {
  test('answers invalid HTTP with the usual error body, and closes the connection', async () => {
    for (const [text, status] of [
      ['nonsense\r\n\r\n', 400],
      ['GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
      ['GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: magic\r\n\r\n', 417],
      ['FOO /healthz HTTP/1.1\r\nHost: x\r\n\r\n', 405],
      ['GET / HTTP/9.9\r\n\r\n', 400],
      [`GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
      [
        'POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
        400,
      ],
    ] as const) {
      const answer = await raw(text)
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      expect(answer).toMatch(/\r\nx-request-id: [0-9a-f-]{36}\r\n/i)
      expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({ code: status, message: expect.any(String) })
    }
  })

  test('refuses a repeated header that must occur once', async () => {
    for (const [name, values] of [
      ['Host', ['x', 'y']],
      ['Authorization', ['Bearer a', 'Bearer b']],
      ['Content-Type', ['application/json', 'application/json; charset=utf-16']],
    ] as const) {
      const lines = [...(name === 'Host' ? [] : ['Host: x']), ...values.map(value => `${name}: ${value}`), '']
      const answer = await raw(`GET /healthz HTTP/1.1\r\nConnection: close\r\n${lines.join('\r\n')}\r\n`)
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(answer).toContain(`"${name}: must occur only once"`)
    }
  })

  test('refuses a body of 10 MB without reading it to its end', async () => {
    const response = await call('POST', '/databases', { body: `"${'a'.repeat(10 * 1024 * 1024)}"` }).catch(
      error => error,
    )
    // Either the response arrives, or the connection is closed while the body is still being sent.
    if (!(response instanceof Error)) expect(response).toMatchObject({ status: 413, body: { code: 413 } })
    const answer = await raw(
      `POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nAuthorization: ${(await bearer()).authorization}\r\nContent-Type: application/json\r\nContent-Length: 10485760\r\n\r\n{`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer.toLowerCase()).toContain('connection: close')
  })

  test('refuses a request without a credential before reading its body', async () => {
    const answer = await raw(
      'POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 10485760\r\n\r\n{',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  })

  test('refuses a body of unknown length as soon as it is too long', async () => {
    const { authorization } = await bearer()
    const chunk = `10000\r\n${'a'.repeat(65_536)}\r\n`
    const answer = await raw(
      `POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(17)}`,
    )
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer.toLowerCase()).toContain('connection: close')
  })

  test('authenticates each request of a connection separately', async () => {
    const socket = await open()
    let received = ''
    socket.on('data', chunk => {
      received += chunk
    })
    const answers = () => received.match(/HTTP\/1\.1 \d{3}/g) ?? []
    const tokens = [
      (await bearer()).authorization,
      'Bearer wrong',
      (await bearer({ tenant: 'other' })).authorization,
      undefined,
    ]
    await create('private')
    for (const [index, authorization] of tokens.entries()) {
      const header = authorization === undefined ? '' : `Authorization: ${authorization}\r\n`
      socket.write(`GET /managed/v1/databases HTTP/1.1\r\nHost: x\r\n${header}\r\n`)
      await until(() => answers().length > index)
    }
    expect(answers().map(line => line.slice(-3))).toEqual(['200', '401', '200', '401'])
    expect(received.match(/"name":"private"/g)).toHaveLength(1)
    socket.destroy()
  })

  test("client-ip uses the request's header, otherwise the socket", async () => {
    const addressOf = async (headers: Record<string, string> = {}) =>
      (await call('GET', '/client-ip', { headers })).body.ip_address
    expect(await addressOf()).toBe('127.0.0.1')
    expect(await addressOf({ 'x-forwarded-for': '203.0.113.7, 10.0.0.1' })).toBe('203.0.113.7')
    expect(await addressOf({ 'x-forwarded-for': 'nonsense' })).toBe('127.0.0.1')
  })

  test('uses a valid request id, and otherwise generates a new id', async () => {
    const addressOf = async (id: string) =>
      (await call('GET', '/regions', { headers: { 'x-request-id': id } })).headers.get('x-request-id')
    expect(await addressOf('trace-1:a/b')).toBe('trace-1:a/b')
    for (const bad of ['a b', '"', '-x', 'a'.repeat(129), 'a;b'])
      expect(await addressOf(bad)).toMatch(/^[0-9a-f-]{36}$/)
  })
})

test('appends one JSON line per attempt to the audit log, which only its owner can read', async () => {
  await api.stop()
  const file = join(directory, 'audit.log')
  await writeFile(file, '{"earlier":true}\n')
  api = await start()
  await create('audited')
  await call('DELETE', `/databases/${crypto.randomUUID()}`)
  await api.stop()
  const lines = (await readFile(file, 'utf8'))
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(lines).toMatchObject([
    { earlier: true },
    { method: 'POST', outcome: 'accepted' },
    { method: 'DELETE', status: 404, outcome: 'refused' },
  ])
  await rm(file)
  api = await start()
  expect((await stat(file)).mode & 0o777).toBe(0o600)
})

test('an audit log that cannot be opened causes a start error', async () => {
  await expect(start({ auditFile: join(directory, 'no', 'such') })).rejects.toThrow(/ENOENT/)
})

test('/readyz returns 200 while the API serves', async () => {
  expect(await (await fetch(`${api.address}/readyz`)).json()).toEqual({ status: 'ok' })
})
