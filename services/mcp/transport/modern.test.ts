/** Revision 2026-07-28 over HTTP: attacks, and cases that the conformance suite omits. */
import { Agent } from 'node:http'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { sendRequest, until } from '../../testing/client.ts'
import { anyone, type Caller } from '../core/caller.ts'
import type { Authentication } from '../credentials/types.ts'
import { type Fixture, sealingKey, startFixture } from '../testing/fixture-server.ts'
import { at, call, type ModernOptions, modern, modernCall, post, postForText, textOf } from '../testing/rpc.ts'
import { createSealer } from './sealed-state.ts'

/** Authenticates the caller that a test chooses. */
const authentication: Authentication = {
  authenticate: async authorization => {
    if (authorization === undefined) return { kind: 'caller', caller: anyone }
    const caller: Caller = { ...anyone, kind: 'user', principal: `user:${authorization}` }
    return { kind: 'caller', caller }
  },
}
const as = (name: string): ModernOptions => ({ headers: { Authorization: name } })

let fixture: Fixture
let now = Date.now()
const stopped: string[] = []
beforeAll(async () => {
  fixture = await startFixture({ authentication, now: () => now, stopped: name => stopped.push(name) })
})
afterAll(() => fixture?.stop())

const tool = (name: string, args?: JsonObject) => ({ name, ...(args === undefined ? {} : { arguments: args }) })
const accept = (content: JsonObject) => ({ action: 'accept', content })

describe('the sealed state of a call', () => {
  const callParams = tool('test_input_required_result_request_state', {})
  const responses = { ok: accept({ ok: true }) }
  const stateOf = async (options?: ModernOptions): Promise<string> =>
    String(at((await modern(fixture.port, 'tools/call', callParams, options)).body, 'result', 'requestState'))
  const retry = (requestState: unknown, params: JsonObject = callParams, options?: ModernOptions) =>
    modern(
      fixture.port,
      'tools/call',
      // A test may also send a value of another type.
      { ...params, inputResponses: responses, requestState: requestState as string },
      options,
    )
  const refused = { jsonrpc: '2.0', id: 1, error: { code: -32602, message: expect.stringContaining('requestState') } }

  test('is accepted once', async () => {
    const state = await stateOf()
    expect(textOf(await retry(state))).toBe('state-ok')
    expect((await retry(state)).body).toMatchObject(refused)
  })

  test('is refused for another caller, tool or argument', async () => {
    const state = await stateOf(as('alice'))
    expect((await retry(state, callParams, as('bob'))).body).toMatchObject(refused)
    expect((await retry(state, callParams)).body).toMatchObject(refused)
    const other = tool('test_input_required_result_tampered_state', {})
    expect((await retry(state, other, as('alice'))).body).toMatchObject(refused)
    const more = { ...callParams, task: { ttl: 1 } }
    expect((await retry(state, more, as('alice'))).body).toMatchObject(refused)
    expect(textOf(await retry(state, callParams, as('alice')))).toBe('state-ok')
  })

  test('is refused after it expires', async () => {
    const state = await stateOf()
    now += 600_000
    expect((await retry(state)).body).toMatchObject(refused)
  })

  test('is refused after any change, always with the same error', async () => {
    const state = await stateOf()
    const changed = fc.oneof(
      fc.string(),
      fc.string().map(text => state + text + (text === '' ? '=' : '')),
      fc.nat(state.length - 1).map(length => state.slice(0, length)),
      fc.tuple(fc.nat(state.length - 1), fc.constantFrom('A', 'z', '0', '-', '.', 'é')).map(([index, character]) => {
        const text = state.slice(0, index) + character + state.slice(index + 1)
        return text === state ? `${state}A` : text
      }),
    )
    const bodies = new Set<string>()
    await fc.assert(
      fc.asyncProperty(changed, async text => {
        const { body } = await retry(text)
        expect(body).toMatchObject(refused)
        bodies.add(JSON.stringify(body))
      }),
      { numRuns: 150 },
    )
    expect(bodies.size).toBe(1)
    for (const none of [1, {}, null]) expect((await retry(none)).body).toMatchObject(refused)
    expect(textOf(await retry(state))).toBe('state-ok')
  })

  test('is accepted by another process with the same key, but not with another key', () => {
    const binding = { principal: 'a', method: 'tools/call', params: { name: 'x', arguments: { b: 1, a: 2 } } }
    const sealed = createSealer(sealingKey, () => now).seal({ kept: 1 }, binding)
    const again = { ...binding, params: { arguments: { a: 2, b: 1 }, name: 'x', requestState: sealed, _meta: {} } }
    expect(createSealer(sealingKey, () => now).open(sealed, again)).toEqual({ kept: 1 })
    expect(() => createSealer(Buffer.alloc(32, 8), () => now).open(sealed, again)).toThrow('invalid params')
    expect(sealed).not.toContain(Buffer.from('kept').toString('base64url').slice(0, 4))
    expect(() => createSealer(Buffer.alloc(31), () => now)).toThrow('at least 32 bytes')
  })

  test('is required with answers: without the state, the server requests the answers again', async () => {
    const { body } = await modern(fixture.port, 'tools/call', { ...callParams, inputResponses: responses })
    expect(at(body, 'result', 'resultType')).toBe('input_required')
  })
})

describe('requests', () => {
  const error = (body: JsonObject) => [at(body, 'error', 'code'), at(body, 'id')]

  test.each<[string, JsonObject, Record<string, string>, number, number]>([
    ['no version header', {}, { 'MCP-Protocol-Version': '' }, 400, -32020],
    ['a version header with an older version', {}, { 'MCP-Protocol-Version': '2025-11-25' }, 400, -32020],
    ['another method in the header', {}, { 'Mcp-Method': 'tools/list' }, 400, -32020],
    ['another name in the header', {}, { 'Mcp-Name': 'test_write' }, 400, -32020],
    ['a name in bad base64', {}, { 'Mcp-Name': '=?base64?Z3JlZXQ?=' }, 400, -32020],
    ['no capabilities', { 'io.modelcontextprotocol/clientCapabilities': 1 }, {}, 400, -32602],
    ['an unknown log level', { 'io.modelcontextprotocol/logLevel': 'loud' }, {}, 400, -32602],
    ['clientInfo that is not an object', { 'io.modelcontextprotocol/clientInfo': 'me' }, {}, 400, -32602],
    [
      'an older version',
      { 'io.modelcontextprotocol/protocolVersion': '2025-11-25' },
      { 'MCP-Protocol-Version': '2025-11-25' },
      400,
      -32022,
    ],
  ])('with %s are refused', async (_, meta, headers, status, code) => {
    const answer = await modern(fixture.port, 'tools/call', tool('greet', { name: 'x' }), { meta, headers, id: 'i' })
    expect([answer.status, ...error(answer.body)]).toEqual([status, code, 'i'])
  })

  test('with a name in base64 are accepted', async () => {
    const headers = { 'Mcp-Name': `=?base64?${Buffer.from('greet').toString('base64')}?=` }
    const answer = await modern(fixture.port, 'tools/call', tool('greet', { name: 'x' }), { headers })
    expect(textOf(answer)).toBe('Hello, x!')
  })

  test('are refused if an argument differs from the header that repeats it', async () => {
    const callRegion = (args: JsonObject, headers: Record<string, string>) =>
      modern(fixture.port, 'tools/call', tool('test_region', args), { headers })
    const args = { region: 'eu', shard: 7, strict: true }
    const parameterHeaders = { 'Mcp-Param-Region': 'eu', 'Mcp-Param-Shard': '7.0', 'Mcp-Param-Strict': 'true' }
    expect(textOf(await callRegion(args, parameterHeaders))).toBe('in eu')
    for (const wrong of [
      {},
      { ...parameterHeaders, 'Mcp-Param-Shard': '8' },
      { ...parameterHeaders, 'Mcp-Param-Strict': 'TRUE' },
    ])
      expect((await callRegion(args, wrong)).body).toMatchObject({ error: { code: -32020 } })
    expect((await callRegion({ region: 'eu' }, parameterHeaders)).body).toMatchObject({ error: { code: -32020 } })
  })

  test('with a version only in the header are refused, and the error names the missing field', async () => {
    const { status, body } = await post(fixture.port, call('tools/list'), { 'MCP-Protocol-Version': '2026-07-28' })
    expect([status, ...error(body)]).toEqual([400, -32602, 1])
    expect(at(body, 'error', 'message')).toContain('clientCapabilities')
  })

  test.each(['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'tasks/list', 'nothing'])(
    'with the method %s are refused',
    async method => {
      const { status, body } = await modern(fixture.port, method)
      expect([status, ...error(body)]).toEqual([404, -32601, 1])
    },
  )

  test('with a version header and invalid JSON are refused with the status 400', async () => {
    const { status, body } = await post(fixture.port, '{', { 'MCP-Protocol-Version': '2026-07-28' })
    expect([status, body]).toEqual([400, { jsonrpc: '2.0', error: { code: -32700, message: 'Parse error' } }])
  })
})

test('the server sends log messages of the requested level and above, if the client requests a level', async () => {
  const textAt = async (level: string) => {
    const { body, headers } = modernCall('tools/call', tool('test_logging_tool'), {
      meta: { 'io.modelcontextprotocol/logLevel': level },
    })
    return (await postForText(fixture.port, body, headers)).text
  }
  expect((await textAt('info')).match(/notifications\/message/g)).toHaveLength(3)
  expect(await textAt('warning')).not.toContain('notifications/message')
})

/** Starts a listener, and collects the messages that it receives. */
async function listen(notifications: JsonObject, options: ModernOptions = {}, on = fixture) {
  const leaving = new AbortController()
  const { body, headers } = modernCall('subscriptions/listen', { notifications }, { id: 'L', ...options })
  let text = ''
  const { request } = await import('node:http')
  const sent = request({
    host: '127.0.0.1',
    port: on.port,
    path: '/mcp/v1',
    method: 'POST',
    agent: new Agent(),
    signal: leaving.signal,
    headers: { 'Content-Type': 'application/json', ...headers },
  })
  sent.on('response', response => {
    response.on('error', () => {})
    response.setEncoding('utf8').on('data', chunk => {
      text += chunk
    })
  })
  sent.on('error', () => {})
  sent.end(JSON.stringify(body))
  onTestFinished(() => leaving.abort())
  const messages = (): JsonObject[] => [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data))
  await until(() => messages().length > 0)
  return {
    messages,
    methods: () => messages().map(one => one.method ?? at(one, 'result', 'resultType')),
    disconnect: () => leaving.abort(),
  }
}

describe('a listener', () => {
  test("receives the list of its subscriptions and then only their changes, each with its request's id", async () => {
    const { messages } = await listen({
      toolsListChanged: true,
      resourceSubscriptions: ['test://a'],
      promptsListChanged: false,
    })
    const { core } = fixture.transports
    core.announce({ kind: 'prompts' })
    core.announce({ kind: 'resource', uri: 'test://b' })
    core.announce({ kind: 'tools' })
    core.announce({ kind: 'resource', uri: 'test://a' })
    await until(() => messages().length === 3)
    const _meta = { 'io.modelcontextprotocol/subscriptionId': 'L' }
    const notifications = { toolsListChanged: true, resourceSubscriptions: ['test://a'], promptsListChanged: false }
    expect(messages().map(({ method, params }) => [method, params])).toEqual([
      ['notifications/subscriptions/acknowledged', { notifications, _meta }],
      ['notifications/tools/list_changed', { _meta }],
      ['notifications/resources/updated', { uri: 'test://a', _meta }],
    ])
  })

  test('without any subscription receives an empty list, and then the result', async () => {
    const { methods } = await listen({ taskIds: ['nobody’s'] })
    await until(() => methods().length === 2)
    expect(methods()).toEqual(['notifications/subscriptions/acknowledged', 'complete'])
  })

  test('must name its subscriptions', async () => {
    const { status, body } = await modern(fixture.port, 'subscriptions/listen', {})
    expect([status, at(body, 'error', 'code')]).toEqual([200, -32602])
    expect(at(body, 'error', 'message')).toContain('notifications')
  })

  test('must accept a stream', async () => {
    const params = { notifications: { toolsListChanged: true } }
    const headers = { Accept: 'application/json' }
    const { status, body } = await modern(fixture.port, 'subscriptions/listen', params, { headers })
    expect([status, at(body, 'error', 'code')]).toEqual([400, -32600])
    expect(at(body, 'error', 'message')).toContain('Accept must include text/event-stream')
  })

  test('receives the result when the server shuts down', async () => {
    const other = await startFixture()
    const { methods } = await listen({ toolsListChanged: true }, {}, other)
    await other.stop()
    await until(() => methods().includes('complete'))
  })
})

describe('a task', () => {
  const slow = tool('slow_compute', { seconds: 60, label: 'x' })
  const begin = async (params: JsonObject, options?: ModernOptions): Promise<JsonObject> =>
    // The result in the response is an object.
    ((await modern(fixture.port, 'tools/call', params, options)).body.result ?? {}) as JsonObject
  const get = async (taskId: unknown, options?: ModernOptions) =>
    (await modern(fixture.port, 'tasks/get', { taskId: String(taskId) }, options)).body

  test('belongs to its caller', async () => {
    const { taskId, resultType } = await begin(slow, as('alice'))
    expect(resultType).toBe('task')
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update']) {
      const params = { taskId: String(taskId), inputResponses: {} }
      const { status, body } = await modern(fixture.port, method, params, as('bob'))
      expect([status, at(body, 'error', 'code')]).toEqual([200, -32602])
    }
    expect(at(await get(taskId, as('alice')), 'result', 'status')).toBe('working')
    await modern(fixture.port, 'tasks/cancel', { taskId: String(taskId) }, as('alice'))
    expect(at(await get(taskId, as('alice')), 'result', 'status')).toBe('cancelled')
  })

  test('requires a client that supports tasks', async () => {
    const { status, body } = await modern(fixture.port, 'tools/call', tool('failing_job'), { capabilities: {} })
    expect([status, at(body, 'error', 'code')]).toEqual([400, -32021])
    const data = { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
    expect(at(body, 'error', 'data')).toEqual(data)
    const quick = tool('slow_compute', { seconds: 0.1, label: 'x' })
    const plain = await modern(fixture.port, 'tools/call', quick, { capabilities: {} })
    expect(textOf(plain)).toBe('computed x')
  })

  test('reports its status to listeners, and accepts answers for the keys of its input requests', async () => {
    const { taskId } = await begin(tool('confirm_delete', { filename: 'a.txt' }))
    const { messages } = await listen({ taskIds: [String(taskId)] })
    await until(() => messages().some(({ params }) => at(params, 'status') === 'input_required'))
    const requests = at(await get(taskId), 'result', 'inputRequests')
    const [key = ''] = Object.keys(requests as JsonObject) // the task has one request
    const answers = { taskId: String(taskId), inputResponses: { [key]: accept({ confirm: true }), other: {} } }
    expect((await modern(fixture.port, 'tasks/update', answers)).body).toMatchObject({
      result: { resultType: 'complete' },
    })
    await until(() => messages().some(({ params }) => at(params, 'status') === 'completed'))
    const last = messages().at(-1)
    expect(at(last, 'params', 'result', 'content', 0, 'text')).toBe('deleted a.txt')
    expect(at(last, 'params', '_meta', 'io.modelcontextprotocol/subscriptionId')).toBe('L')
  })

  test('that has ended is evicted for a new task at the limit; a running task is not evicted', async () => {
    const carol = as('carol')
    const ids: unknown[] = []
    for (let count = 0; count < 50; count++) ids.push((await begin(slow, carol)).taskId)
    expect(new Set(ids).size).toBe(50)
    const { body } = await modern(fixture.port, 'tools/call', tool('failing_job'), carol)
    expect(at(body, 'error', 'message')).toContain('at most 50 tasks of one caller, and 1000 in total, may run')
    await modern(fixture.port, 'tasks/cancel', { taskId: String(ids[7]) }, carol)
    expect((await begin(slow, carol)).resultType).toBe('task')
    expect(at(await get(ids[7], carol), 'error', 'code')).toBe(-32602)
    expect(at(await get(ids[8], carol), 'result', 'status')).toBe('working')
    for (const taskId of ids) await modern(fixture.port, 'tasks/cancel', { taskId: String(taskId) }, carol)
  })
})

test('the server stops a call whose client disconnects', async () => {
  const leaving = new AbortController()
  const { body, headers } = modernCall('tools/call', tool('test_wait'))
  const waiting = postForText(fixture.port, body, headers, leaving.signal)
  setTimeout(() => leaving.abort(), 50)
  await expect(waiting).rejects.toThrow()
  await until(() => stopped.includes('test_wait'))
})

test('the server accepts notifications, and refuses responses', async () => {
  const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Content-Type': 'application/json' }
  const send = (body: object) =>
    sendRequest(fixture.port, '/mcp/v1', { method: 'POST', headers, body: JSON.stringify(body) }, new Agent())
  expect((await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })).status).toBe(202)
  expect((await send({ jsonrpc: '2.0', id: 1, result: {} })).status).toBe(400)
})
