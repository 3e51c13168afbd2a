/**
 * Two bridges behind a proxy that alternates between them. Each bridge must reach the other bridge's sessions, streams,
 * requests to clients and tasks. A bridge that stops finishes its requests.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { sendRequest } from '../testing/client.ts'
import { freePort } from '../testing/postgres.ts'
import { type RoundRobin, startRoundRobin } from '../testing/round-robin.ts'
import { startTestBridge, type TestBridge } from './testing/bridge.ts'

const fixture = fileURLToPath(new URL('../mcp/testing/fixture-stdio.ts', import.meta.url))
const secret = randomBytes(32).toString('hex')

async function startReplica(parts: Parameters<typeof startTestBridge>[0] = {}, own = secret): Promise<TestBridge> {
  const port = await freePort()
  return startTestBridge({ ...parts, port, server: { peer: { address: `127.0.0.1:${port}`, secret: own } } })
}

let replicas: readonly TestBridge[]
let proxy: RoundRobin
async function begin(args?: readonly string[]): Promise<void> {
  const parts = args === undefined ? { mcp_server: { args: [fixture] } } : { args }
  replicas = await Promise.all([startReplica(parts), startReplica(parts)])
  proxy = await startRoundRobin(replicas.map(({ port }) => port))
}
beforeEach(() => {
  replicas = []
})
afterEach(async () => {
  await proxy.stop()
  for (const replica of replicas) await replica.stop()
})

const url = () => new URL(`http://127.0.0.1:${proxy.port}/mcp`)
const information = { name: 'test', version: '1' }
const headersOf = (more: Record<string, string> = {}) => ({
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  ...more,
})
const post = (message: object, headers: Record<string, string> = {}, port = proxy.port) =>
  sendRequest(port, '/mcp', {
    method: 'POST',
    headers: headersOf(headers),
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  })
const call = (id: number, name: string, args: object = {}, meta = {}) => ({
  id,
  method: 'tools/call',
  params: { name, arguments: args, _meta: meta },
})

async function session(port = proxy.port): Promise<Record<string, string>> {
  const params = { protocolVersion: '2025-11-25', capabilities: { elicitation: {} }, clientInfo: information }
  const { headers } = await post({ id: 1, method: 'initialize', params }, {}, port)
  const all = { 'Mcp-Session-Id': String(headers['mcp-session-id']), 'MCP-Protocol-Version': '2025-11-25' }
  await post({ method: 'notifications/initialized' }, all, port)
  return all
}

test('a client of the older revisions calls, answers a request, receives progress and ends its session', async () => {
  await begin()
  const client = new OldClient(information, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: 'accept' as const,
    content: { username: 'ann', email: 'a@b.c' },
  }))
  const transport = new OldTransport(url())
  // biome-ignore lint/suspicious/noExplicitAny: its transports do not fit its own type where optional properties are exact
  await client.connect(transport as any)
  onTestFinished(() => client.close())
  for (let times = 0; times < 6; times += 1) {
    const called = await client.callTool({ name: 'test_elicitation', arguments: { message: 'who?' } })
    expect(JSON.stringify(called.content)).toContain('ann')
    let reports = 0
    const onprogress = () => {
      reports += 1
    }
    await client.callTool({ name: 'test_tool_with_progress' }, undefined, { onprogress })
    expect(reports).toBe(3)
  }
  await transport.terminateSession()
  expect([...proxy.answered.values()].every(count => count > 5)).toBe(true)
})

test.each(['legacy', 'auto'] as const)('a client of the newest revision works as with one server (%s)', async mode => {
  await begin()
  const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } }
  const client = new Client(information, options)
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Ann' } }))
  await client.connect(new StreamableHTTPClientTransport(url()))
  onTestFinished(() => client.close())
  for (let times = 0; times < 6; times += 1) {
    const { content } = await client.callTool({ name: 'test_input_required_result_elicitation' })
    expect(JSON.stringify(content)).toContain('Hello, Ann!')
    expect((await client.listTools()).tools.length).toBeGreaterThan(5)
  }
})

test('a client resumes a broken stream through the other replica', async () => {
  await begin(['multiplexed'])
  const own = await session()
  const controller = new AbortController()
  const body = JSON.stringify({ jsonrpc: '2.0', ...call(2, 'progress', { ms: 150 }, { progressToken: 'p' }) })
  const { signal } = controller
  const response = await fetch(url(), { method: 'POST', headers: headersOf(own), body, signal })
  const reader = response.body?.getReader()
  let seen = ''
  while (!seen.includes('"progress":1')) seen += Buffer.from((await reader?.read())?.value ?? []).toString()
  controller.abort()
  const last = [...seen.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] ?? ''
  const headers = { ...own, Accept: 'text/event-stream', 'Last-Event-ID': last }
  for (let times = 0; times < 2; times += 1) {
    const again = await sendRequest(proxy.port, '/mcp', { headers })
    expect(again.status).toBe(200)
    expect(again.text).not.toContain('"progress":1,')
    expect(again.text).toContain('"progress":3')
    expect(again.text).toContain('"id":2')
  }
})

test('only its caller finds a session and ends it once; a changed id is unknown', async () => {
  await begin(['multiplexed'])
  const own = await session()
  const id = own['Mcp-Session-Id'] ?? ''
  for (let times = 0; times < 4; times += 1) expect((await post(call(times, 'whoami'), own)).status).toBe(200)
  for (const forged of [`${id}A`, id.slice(1), id.replace('~', '~~'), id.split('~')[0] ?? '', `x~${id.split('~')[1]}`])
    for (let times = 0; times < 2; times += 1)
      expect((await post(call(9, 'whoami'), { ...own, 'Mcp-Session-Id': forged })).status).toBe(404)
  const ended = await Promise.all([1, 2].map(() => sendRequest(proxy.port, '/mcp', { method: 'DELETE', headers: own })))
  expect(ended.map(({ status }) => status).sort()).toEqual([204, 404])
  for (let times = 0; times < 2; times += 1) expect((await post(call(9, 'whoami'), own)).status).toBe(404)
})

test('another installation’s sessions are unknown', async () => {
  await begin(['multiplexed'])
  const other = await startReplica({ args: ['multiplexed'] }, randomBytes(32).toString('hex'))
  onTestFinished(() => other.stop())
  const otherSession = await session(other.port)
  for (let times = 0; times < 2; times += 1) expect((await post(call(2, 'whoami'), otherSession)).status).toBe(404)
  expect((await post(call(2, 'whoami'), otherSession, other.port)).status).toBe(200)
})

test('a stopping bridge answers its running requests, and its clients start new sessions on another replica', async () => {
  await begin(['multiplexed'])
  const [first, second] = replicas
  if (first === undefined || second === undefined) throw new Error('a process is missing')
  const own = await session(first.port)
  // One request is sent directly, one through the remaining replica; one is answered with JSON, one with a stream.
  const direct = post(call(2, 'slow', { ms: 800 }), own, first.port)
  const through = post(call(3, 'progress', { ms: 300 }, { progressToken: 'p' }), own, second.port)
  const listening = sendRequest(second.port, '/mcp', { headers: { ...own, Accept: 'text/event-stream' } })
  await pause(200)
  const stopped = first.stop()
  expect((await listening).text).toContain('event: close')
  const [one, two] = await Promise.all([direct, through])
  expect([one.status, two.status]).toEqual([200, 200])
  expect(JSON.parse(one.text).result).toBeDefined()
  expect(two.text).toContain('"id":3')
  expect(two.text).toContain('"result"')
  for (let times = 0; times < 4; times += 1) expect((await post(call(4, 'whoami'), own)).status).toBe(404)
  const again = await session()
  for (let times = 0; times < 4; times += 1) expect((await post(call(5, 'whoami'), again)).status).toBe(200)
  await stopped
  replicas = [second]
})

test('a bridge stops immediately if its tool server is still starting', async () => {
  await begin(['multiplexed'])
  const port = await freePort()
  const silent = ['-e', 'process.stdin.on("end", () => process.exit()).resume()']
  const starting = startTestBridge({ port, mcp_server: { args: silent, graceful_shutdown_timeout: '10s' } })
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: information }
  const listen = async () => {
    for (;;) {
      const answer = await post({ id: 1, method: 'initialize', params }, {}, port).catch(() => undefined)
      if (answer !== undefined) return answer
      await pause(10)
    }
  }
  const answer = listen()
  const bridge = await starting
  const began = performance.now()
  await bridge.stop()
  expect((await answer).status).toBe(503)
  expect(performance.now() - began).toBeLessThan(3_000)
}, 60_000)
