/**
 * Tests real clients: two major versions of the TypeScript SDK, over HTTP and over stdio, in the revisions 2025-11-25
 * and 2026-07-28.
 */
import { Client, type ClientOptions, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OldStdioTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldHttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { until } from '../../testing/client.ts'
import { type Fixture, fixtureProgram, startFixture } from '../testing/fixture-server.ts'
import { at } from '../testing/rpc.ts'

let fixture: Fixture
const stopped: string[] = []
beforeAll(async () => {
  fixture = await startFixture({ stopped: name => stopped.push(name) })
})
afterAll(() => fixture?.stop())

const child = { command: process.execPath, args: [fixtureProgram] }
const endpoint = () => new URL(`http://127.0.0.1:${fixture.port}/mcp/v1`)
const information = { name: 'test', version: '1' }
const filledIn = { action: 'accept' as const, content: { name: 'Ann' } }

/** The operations that both SDKs have. Results are untyped, because the two versions type them differently. */
type Speaker = {
  listTools(): Promise<unknown>
  callTool(params: { name: string; arguments?: Record<string, unknown> }, onprogress?: () => void): Promise<unknown>
  readResource(uri: string): Promise<unknown>
  cancelled(name: string): Promise<unknown>
  close(): Promise<void>
}

async function newClient(transport: 'http' | 'stdio', mode: 'legacy' | 'auto' | { pin: string }) {
  const options: ClientOptions = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } }
  const client = new Client(information, options)
  client.setRequestHandler('elicitation/create', async () => filledIn)
  await client.connect(
    transport === 'http' ? new StreamableHTTPClientTransport(endpoint()) : new StdioClientTransport(child),
  )
  onTestFinished(() => client.close())
  return client
}

const speakerOf = (client: Client): Speaker => ({
  listTools: () => client.listTools(),
  callTool: (params, onprogress) => client.callTool(params, onprogress === undefined ? {} : { onprogress }),
  readResource: uri => client.readResource({ uri }),
  cancelled(name) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 100)
    return client.callTool({ name }, { signal: controller.signal })
  },
  close: () => client.close(),
})

async function oldClient(transport: 'http' | 'stdio'): Promise<OldClient> {
  const client = new OldClient(information, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, async () => filledIn)
  const made = transport === 'stdio' ? new OldStdioTransport(child) : new OldHttpTransport(endpoint())
  await client.connect(made)
  onTestFinished(() => client.close())
  return client
}

const oldSpeakerOf = (client: OldClient): Speaker => ({
  listTools: () => client.listTools(),
  callTool: (params, onprogress) => client.callTool(params, undefined, onprogress === undefined ? {} : { onprogress }),
  readResource: uri => client.readResource({ uri }),
  cancelled(name) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 100)
    return client.callTool({ name }, undefined, { signal: controller.signal })
  },
  close: () => client.close(),
})

async function goThrough(client: Speaker): Promise<void> {
  expect(at(await client.listTools(), 'tools')).toContainEqual(expect.objectContaining({ name: 'greet' }))
  const greeted = await client.callTool({ name: 'greet', arguments: { name: 'you' } })
  expect(at(greeted, 'content', 0, 'text')).toBe('Hello, you!')
  expect(at(await client.readResource('test://static-text'), 'contents', 0, 'text')).toContain('static text')
  await expect(client.readResource('test://nothing')).rejects.toThrow()
  let reports = 0
  await client.callTool({ name: 'test_tool_with_progress' }, () => {
    reports++
  })
  expect(reports).toBe(3)
  await expect(client.cancelled('test_wait')).rejects.toThrow()
}

test.each([
  ['http', 'legacy', '2025-11-25'],
  ['http', 'auto', '2026-07-28'],
  ['http', { pin: '2026-07-28' }, '2026-07-28'],
  ['stdio', 'legacy', '2025-11-25'],
  ['stdio', 'auto', '2026-07-28'],
] as const)(
  'the newer SDK lists, calls, reads and cancels over %s in the mode %j',
  async (transport, mode, version) => {
    const client = await newClient(transport, mode)
    expect(client.getNegotiatedProtocolVersion()).toBe(version)
    await goThrough(speakerOf(client))
    // In the older revision, a client cancels by a message. Over HTTP, the server ignores this message.
    if (transport === 'http' && mode !== 'legacy') await until(() => stopped.includes('test_wait'))
    stopped.length = 0
  },
)

test.each(['http', 'stdio'] as const)('the older SDK lists, calls, reads and cancels over %s', async transport => {
  await goThrough(oldSpeakerOf(await oldClient(transport)))
})

const name = 'test_input_required_result_elicitation'

test.each([
  ['http', { pin: '2026-07-28' }],
  ['stdio', { pin: '2026-07-28' }],
  ['stdio', 'legacy'],
] as const)('the newer SDK asks its user over %s in the mode %j', async (transport, mode) => {
  const client = await newClient(transport, mode)
  expect(at(await client.callTool({ name }), 'content', 0, 'text')).toBe('Hello, Ann!')
})

test('the older SDK asks its user over stdio', async () => {
  const client = await oldClient('stdio')
  expect(at(await client.callTool({ name }), 'content', 0, 'text')).toBe('Hello, Ann!')
})

test('the newer SDK receives changes', async () => {
  const client = await newClient('http', { pin: '2026-07-28' })
  let changes = 0
  client.setNotificationHandler('notifications/tools/list_changed', () => {
    changes++
  })
  const subscription = await client.listen({ toolsListChanged: true })
  fixture.transports.core.announce({ kind: 'tools' })
  await until(() => changes > 0)
  await subscription.close()
})
