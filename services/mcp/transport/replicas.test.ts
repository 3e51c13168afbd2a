/**
 * Two replicas behind a proxy that alternates between them. Each replica must find the state that is in the other
 * replica's memory.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { hashPassword } from '../../authentication/password.ts'
import { Peers } from '../../http/peers/index.ts'
import { sendRequest } from '../../testing/client.ts'
import { freePort } from '../../testing/postgres.ts'
import { type RoundRobin, startRoundRobin } from '../../testing/round-robin.ts'
import { createAuthentication } from '../credentials/index.ts'
import { type Fixture, startFixture } from '../testing/fixture-server.ts'
import { at } from '../testing/rpc.ts'

const secret = randomBytes(32).toString('hex')
const tasksExtension = 'io.modelcontextprotocol/tasks'

type Replica = { readonly fixture: Fixture; readonly peers: Peers }

async function startReplica(options: Parameters<typeof startFixture>[0] = {}, own = secret): Promise<Replica> {
  const port = await freePort()
  const peers = new Peers({ address: { host: '127.0.0.1', port }, secret: own }, 'mcp')
  return { peers, fixture: await startFixture({ ...options, peers, port }) }
}

let replicas: readonly Replica[]
let proxy: RoundRobin
beforeAll(async () => {
  replicas = await Promise.all([startReplica(), startReplica()])
  proxy = await startRoundRobin(replicas.map(({ fixture }) => fixture.port))
})
afterAll(async () => {
  await proxy.stop()
  for (const { fixture, peers } of replicas) {
    await fixture.stop()
    peers.close()
  }
})

const capabilities = { elicitation: { form: {} }, extensions: { [tasksExtension]: {} } }
const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': capabilities,
}

async function rpc(method: string, params: Record<string, unknown>, port = proxy.port, more = {}) {
  const name = params.name ?? params.taskId
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'MCP-Protocol-Version': '2026-07-28',
    'Mcp-Method': method,
    ...(typeof name === 'string' && { 'Mcp-Name': name }),
    ...more,
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } })
  const answer = await sendRequest(port, '/mcp/v1', { method: 'POST', headers, body })
  return { ...answer, parsed: JSON.parse(answer.text.startsWith('{') ? answer.text : lastEvent(answer.text)) }
}
const lastEvent = (text: string) => [...text.matchAll(/^data: (.+)$/gm)].at(-1)?.[1] ?? 'null'

const endpoint = () => new URL(`http://127.0.0.1:${proxy.port}/mcp/v1`)

test('both replicas find a task, and both can cancel it', async () => {
  const begun = await rpc('tools/call', { name: 'slow_compute', arguments: { seconds: 2, label: 'x' } })
  const { taskId } = begun.parsed.result
  const statuses = new Set<string>()
  for (let attempts = 0; attempts < 2_000 && !statuses.has('completed'); attempts += 1) {
    const { status, parsed } = await rpc('tasks/get', { taskId })
    expect([status, parsed.error]).toEqual([200, undefined])
    expect(parsed.result.taskId).toBe(taskId)
    statuses.add(parsed.result.status)
    await pause(10)
  }
  expect(statuses).toEqual(new Set(['working', 'completed']))
  const second = await rpc('tools/call', { name: 'slow_compute', arguments: { seconds: 60, label: 'y' } })
  for (let times = 0; times < 4; times += 1)
    expect((await rpc('tasks/cancel', { taskId: second.parsed.result.taskId })).status).toBe(200)
  expect((await rpc('tasks/get', { taskId: second.parsed.result.taskId })).parsed.result.status).toBe('cancelled')
  expect([...proxy.answered.values()].every(count => count > 3)).toBe(true)
})

test('a listener receives the changes of a task of another replica', async () => {
  const begun = await rpc('tools/call', { name: 'slow_compute', arguments: { seconds: 60, label: 'x' } })
  const { taskId } = begun.parsed.result
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'text/event-stream, application/json',
    'MCP-Protocol-Version': '2026-07-28',
    'Mcp-Method': 'subscriptions/listen',
  }
  const params = { notifications: { taskIds: [taskId] }, _meta: meta }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'subscriptions/listen', params })
  const acknowledged = new Set<number>()
  const texts = replicas.map(async ({ fixture }) => {
    const controller = new AbortController()
    const { signal } = controller
    const response = await fetch(`http://127.0.0.1:${fixture.port}/mcp/v1`, { method: 'POST', headers, body, signal })
    const decoder = new TextDecoder()
    let seen = ''
    for await (const chunk of response.body ?? []) {
      seen += decoder.decode(chunk)
      if (seen.includes('acknowledged')) acknowledged.add(fixture.port)
      if (acknowledged.size === 2) void rpc('tasks/cancel', { taskId })
      if (seen.includes('"cancelled"')) break
    }
    controller.abort()
    return seen
  })
  for (const text of await Promise.all(texts)) {
    expect(text).toContain(`"taskIds":["${taskId}"]`)
    expect(text).toContain('"status":"cancelled"')
  }
})

test('a call that requests input accepts one answer, through any replica', async () => {
  const name = 'test_input_required_result_elicitation'
  const answers = { action: 'accept', content: { name: 'Ann' } }
  for (const first of replicas) {
    const answer = await rpc('tools/call', { name }, first.fixture.port)
    const { requestState, inputRequests } = answer.parsed.result
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map(key => [key, answers]))
    const results = await Promise.all(
      [0, 1, 0, 1].map(at =>
        rpc('tools/call', { name, requestState, inputResponses }, replicas[at]?.fixture.port ?? 0),
      ),
    )
    const done = results.filter(({ parsed }) => parsed.result?.resultType === 'complete')
    expect(done).toHaveLength(1)
    expect(at(done[0]?.parsed, 'result', 'content', 0, 'text')).toBe('Hello, Ann!')
  }
})

test.each(['legacy', 'auto'] as const)('the newer SDK works with two replicas as with one (%s)', async mode => {
  const client = new Client({ name: 'test', version: '1' }, { capabilities, versionNegotiation: { mode } })
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Ann' } }))
  await client.connect(new StreamableHTTPClientTransport(endpoint()))
  onTestFinished(() => client.close())
  for (let times = 0; times < 10; times += 1) {
    const greeted = await client.callTool({ name: 'greet', arguments: { name: 'you' } })
    expect(at(greeted, 'content', 0, 'text')).toBe('Hello, you!')
    if (mode === 'auto') {
      const answer = await client.callTool({ name: 'test_input_required_result_elicitation' })
      expect(at(answer, 'content', 0, 'text')).toBe('Hello, Ann!')
    }
  }
})

test('the older SDK works with two replicas as with one', async () => {
  const client = new OldClient({ name: 'test', version: '1' })
  // biome-ignore lint/suspicious/noExplicitAny: under exactOptionalPropertyTypes, the SDK's types do not match
  await client.connect(new OldTransport(endpoint()) as any)
  onTestFinished(() => client.close())
  for (let times = 0; times < 10; times += 1)
    expect(at(await client.callTool({ name: 'greet', arguments: { name: 'you' } }), 'content', 0, 'text')).toBe(
      'Hello, you!',
    )
})

test('a login is valid at every replica until the replica that created it stops', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'espalier-mcp-replicas-'))
  const hash = await hashPassword('correct horse')
  const time = new Date().toISOString()
  const user = { password_hash: hash, enabled: true, failed_attempts: 0, annotation: '', created_at: time }
  writeFileSync(join(folder, 'users.yaml'), JSON.stringify({ users: { alice: user } }), { mode: 0o600 })
  writeFileSync(join(folder, 'tokens.yaml'), JSON.stringify({ tokens: {} }), { mode: 0o600 })
  const limits = { rateLimitWindowMinutes: 15, rateLimitMaximumAttempts: 10, maximumFailedAttemptsBeforeLockout: 0 }
  const files = { tokenFile: join(folder, 'tokens.yaml'), userFile: join(folder, 'users.yaml') }
  const start = async () => {
    const port = await freePort()
    const peers = new Peers({ address: { host: '127.0.0.1', port }, secret }, 'mcp')
    const authentication = await createAuthentication({
      settings: { enabled: true, ...files, ...limits },
      logger: pino({ level: 'silent' }),
      nameOf: random => peers.mint('login', random),
    })
    const fixture = await startFixture({ authentication, peers, port })
    const stop = async () => {
      await fixture.stop()
      peers.close()
      await authentication.stop()
    }
    return { authentication, fixture, stop }
  }
  const [one, two] = [await start(), await start()]
  const login = await one.authentication.login('alice', 'correct horse', '127.0.0.1')
  if (login.kind !== 'session') throw new Error(login.kind)
  const call = (port: number, token: string) =>
    rpc('tools/call', { name: 'greet', arguments: { name: 'you' } }, port, { Authorization: `Bearer ${token}` })
  for (const { fixture } of [one, two, one, two]) {
    const answer = await call(fixture.port, login.token)
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('Hello')])
  }
  expect((await call(two.fixture.port, `x${login.token}`)).status).toBe(401)
  expect((await call(two.fixture.port, `${login.token.slice(0, -2)}AA`)).status).toBe(401)
  await one.stop()
  expect((await call(two.fixture.port, login.token)).status).toBe(401)
  await two.stop()
  rmSync(folder, { recursive: true })
})

test('a task of a stopped replica is unknown immediately', async () => {
  const stopped = await startReplica()
  const begun = await rpc(
    'tools/call',
    { name: 'slow_compute', arguments: { seconds: 60, label: 'x' } },
    stopped.fixture.port,
  )
  await stopped.fixture.stop()
  stopped.peers.close()
  const began = performance.now()
  const { parsed } = await rpc('tasks/get', { taskId: begun.parsed.result.taskId })
  expect(parsed.error).toMatchObject({ code: -32_602 })
  expect(performance.now() - began).toBeLessThan(1_500)
})

test('the task id of a replica with another secret is unknown', async () => {
  const other = await startReplica({}, randomBytes(32).toString('hex'))
  const begun = await rpc(
    'tools/call',
    { name: 'slow_compute', arguments: { seconds: 5, label: 'x' } },
    other.fixture.port,
  )
  const { parsed } = await rpc('tasks/get', { taskId: begun.parsed.result.taskId })
  expect(parsed.error).toMatchObject({ code: -32_602 })
  await other.fixture.stop()
  other.peers.close()
})
