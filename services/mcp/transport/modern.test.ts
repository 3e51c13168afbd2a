/** Revision 2026-07-28 over HTTP: what the judge does not look at, and whoever means it no good. */
import { Agent } from 'node:http'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { ask, until } from '../../testing/client.ts'
import { anyone, type Caller } from '../core/caller.ts'
import type { Authentication } from '../credentials/types.ts'
import { type Fixture, sealingKey, startFixture } from '../testing/fixture-server.ts'
import { at, call, type ModernOptions, modern, modernCall, post, postForText, textOf } from '../testing/rpc.ts'
import { createSealer } from './sealed-state.ts'

/** Whoever they say they are. */
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

describe('a state that the client carries', () => {
  const asking = tool('test_input_required_result_request_state', {})
  const responses = { ok: accept({ ok: true }) }
  const stateOf = async (options?: ModernOptions): Promise<string> =>
    String(at((await modern(fixture.port, 'tools/call', asking, options)).body, 'result', 'requestState'))
  const retry = (requestState: unknown, params: JsonObject = asking, options?: ModernOptions) =>
    modern(
      fixture.port,
      'tools/call',
      { ...params, inputResponses: responses, requestState: requestState as string }, // or whatever a test sends
      options,
    )
  const refused = { jsonrpc: '2.0', id: 1, error: { code: -32602, message: expect.stringContaining('requestState') } }

  test('opens once', async () => {
    const state = await stateOf()
    expect(textOf(await retry(state))).toBe('state-ok')
    expect((await retry(state)).body).toMatchObject(refused)
  })

  test('does not open for another caller, tool or argument', async () => {
    const state = await stateOf(as('alice'))
    expect((await retry(state, asking, as('bob'))).body).toMatchObject(refused)
    expect((await retry(state, asking)).body).toMatchObject(refused)
    const other = tool('test_input_required_result_tampered_state', {})
    expect((await retry(state, other, as('alice'))).body).toMatchObject(refused)
    const more = { ...asking, task: { ttl: 1 } }
    expect((await retry(state, more, as('alice'))).body).toMatchObject(refused)
    expect(textOf(await retry(state, asking, as('alice')))).toBe('state-ok')
  })

  test('does not open when its time is up', async () => {
    const state = await stateOf()
    now += 600_000
    expect((await retry(state)).body).toMatchObject(refused)
  })

  test('does not open however it is changed, and tells no kind of wrong from another', async () => {
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

  test('opens at another process with the same key, and not with another', () => {
    const binding = { principal: 'a', method: 'tools/call', params: { name: 'x', arguments: { b: 1, a: 2 } } }
    const sealed = createSealer(sealingKey, () => now).seal({ kept: 1 }, binding)
    const again = { ...binding, params: { arguments: { a: 2, b: 1 }, name: 'x', requestState: sealed, _meta: {} } }
    expect(createSealer(sealingKey, () => now).open(sealed, again)).toEqual({ kept: 1 })
    expect(() => createSealer(Buffer.alloc(32, 8), () => now).open(sealed, again)).toThrow('invalid params')
    expect(sealed).not.toContain(Buffer.from('kept').toString('base64url').slice(0, 4))
    expect(() => createSealer(Buffer.alloc(31), () => now)).toThrow('at least 32 bytes')
  })

  test('answers without it are asked for again', async () => {
    const { body } = await modern(fixture.port, 'tools/call', { ...asking, inputResponses: responses })
    expect(at(body, 'result', 'resultType')).toBe('input_required')
  })
})

describe('what a request says of itself', () => {
  const error = (body: JsonObject) => [at(body, 'error', 'code'), at(body, 'id')]

  test.each<[string, JsonObject, Record<string, string>, number, number]>([
    ['no header of the version', {}, { 'MCP-Protocol-Version': '' }, 400, -32020],
    ['a header of an older version', {}, { 'MCP-Protocol-Version': '2025-11-25' }, 400, -32020],
    ['another method in the header', {}, { 'Mcp-Method': 'tools/list' }, 400, -32020],
    ['another name in the header', {}, { 'Mcp-Name': 'test_write' }, 400, -32020],
    ['a name in bad base64', {}, { 'Mcp-Name': '=?base64?Z3JlZXQ?=' }, 400, -32020],
    ['no capabilities', { 'io.modelcontextprotocol/clientCapabilities': 1 }, {}, 400, -32602],
    ['a level that is none', { 'io.modelcontextprotocol/logLevel': 'loud' }, {}, 400, -32602],
    ['a client that is no object', { 'io.modelcontextprotocol/clientInfo': 'me' }, {}, 400, -32602],
    [
      'an older version',
      { 'io.modelcontextprotocol/protocolVersion': '2025-11-25' },
      { 'MCP-Protocol-Version': '2025-11-25' },
      400,
      -32022,
    ],
  ])('with %s is refused', async (_, meta, headers, status, code) => {
    const answer = await modern(fixture.port, 'tools/call', tool('greet', { name: 'x' }), { meta, headers, id: 'i' })
    expect([answer.status, ...error(answer.body)]).toEqual([status, code, 'i'])
  })

  test('a name in base64 is the name', async () => {
    const headers = { 'Mcp-Name': `=?base64?${Buffer.from('greet').toString('base64')}?=` }
    const said = await modern(fixture.port, 'tools/call', tool('greet', { name: 'x' }), { headers })
    expect(textOf(said)).toBe('Hello, x!')
  })

  test('arguments that are to be repeated must be', async () => {
    const ask = (args: JsonObject, headers: Record<string, string>) =>
      modern(fixture.port, 'tools/call', tool('test_region', args), { headers })
    const args = { region: 'eu', shard: 7, strict: true }
    const said = { 'Mcp-Param-Region': 'eu', 'Mcp-Param-Shard': '7.0', 'Mcp-Param-Strict': 'true' }
    expect(textOf(await ask(args, said))).toBe('in eu')
    for (const wrong of [{}, { ...said, 'Mcp-Param-Shard': '8' }, { ...said, 'Mcp-Param-Strict': 'TRUE' }])
      expect((await ask(args, wrong)).body).toMatchObject({ error: { code: -32020 } })
    expect((await ask({ region: 'eu' }, said)).body).toMatchObject({ error: { code: -32020 } })
  })

  test('a version header without a claim in the body is told what is missing', async () => {
    const { status, body } = await post(fixture.port, call('tools/list'), { 'MCP-Protocol-Version': '2026-07-28' })
    expect([status, ...error(body)]).toEqual([400, -32602, 1])
    expect(at(body, 'error', 'message')).toContain('clientCapabilities')
  })

  test.each(['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'tasks/list', 'nothing'])(
    '%s is no method of it',
    async method => {
      const { status, body } = await modern(fixture.port, method)
      expect([status, ...error(body)]).toEqual([404, -32601, 1])
    },
  )

  test('bad JSON under its header is told by a status', async () => {
    const { status, body } = await post(fixture.port, '{', { 'MCP-Protocol-Version': '2026-07-28' })
    expect([status, body]).toEqual([400, { jsonrpc: '2.0', error: { code: -32700, message: 'Parse error' } }])
  })
})

test('logs are told to whom has asked for them, from the level they have asked for', async () => {
  const textAt = async (level: string) => {
    const { body, headers } = modernCall('tools/call', tool('test_logging_tool'), {
      meta: { 'io.modelcontextprotocol/logLevel': level },
    })
    return (await postForText(fixture.port, body, headers)).text
  }
  expect((await textAt('info')).match(/notifications\/message/g)).toHaveLength(3)
  expect(await textAt('warning')).not.toContain('notifications/message')
})

/** A listener, with what it has been told. */
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
  const told = (): JsonObject[] => [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data))
  await until(() => told().length > 0)
  return {
    told,
    methods: () => told().map(one => one.method ?? at(one, 'result', 'resultType')),
    leave: () => leaving.abort(),
  }
}

describe('a listener', () => {
  test('is told what it will be told of, and then that only, by which of its requests', async () => {
    const { told } = await listen({
      toolsListChanged: true,
      resourceSubscriptions: ['test://a'],
      promptsListChanged: false,
    })
    const { core } = fixture.transports
    core.announce({ kind: 'prompts' })
    core.announce({ kind: 'resource', uri: 'test://b' })
    core.announce({ kind: 'tools' })
    core.announce({ kind: 'resource', uri: 'test://a' })
    await until(() => told().length === 3)
    const _meta = { 'io.modelcontextprotocol/subscriptionId': 'L' }
    const notifications = { toolsListChanged: true, resourceSubscriptions: ['test://a'], promptsListChanged: false }
    expect(told().map(({ method, params }) => [method, params])).toEqual([
      ['notifications/subscriptions/acknowledged', { notifications, _meta }],
      ['notifications/tools/list_changed', { _meta }],
      ['notifications/resources/updated', { uri: 'test://a', _meta }],
    ])
  })

  test('of nothing is told so, and that is all', async () => {
    const { methods } = await listen({ taskIds: ['nobody’s'] })
    await until(() => methods().length === 2)
    expect(methods()).toEqual(['notifications/subscriptions/acknowledged', 'complete'])
  })

  test('must say of what', async () => {
    const { status, body } = await modern(fixture.port, 'subscriptions/listen', {})
    expect([status, at(body, 'error', 'code')]).toEqual([200, -32602])
    expect(at(body, 'error', 'message')).toContain('notifications')
  })

  test('is told when the server ends', async () => {
    const other = await startFixture()
    const { methods } = await listen({ toolsListChanged: true }, {}, other)
    await other.stop()
    await until(() => methods().includes('complete'))
  })
})

describe('a task', () => {
  const slow = tool('slow_compute', { seconds: 60, label: 'x' })
  const begin = async (params: JsonObject, options?: ModernOptions): Promise<JsonObject> =>
    ((await modern(fixture.port, 'tools/call', params, options)).body.result ?? {}) as JsonObject // an object where there is one
  const get = async (taskId: unknown, options?: ModernOptions) =>
    (await modern(fixture.port, 'tasks/get', { taskId: String(taskId) }, options)).body

  test('is its caller’s alone', async () => {
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

  test('takes a client that knows them', async () => {
    const { status, body } = await modern(fixture.port, 'tools/call', tool('failing_job'), { capabilities: {} })
    expect([status, at(body, 'error', 'code')]).toEqual([400, -32021])
    const data = { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
    expect(at(body, 'error', 'data')).toEqual(data)
    const quick = tool('slow_compute', { seconds: 0.1, label: 'x' })
    const plain = await modern(fixture.port, 'tools/call', quick, { capabilities: {} })
    expect(textOf(plain)).toBe('computed x')
  })

  test('tells who listens how it goes, and asks under keys that are used once', async () => {
    const { taskId } = await begin(tool('confirm_delete', { filename: 'a.txt' }))
    const { told } = await listen({ taskIds: [String(taskId)] })
    await until(() => told().some(({ params }) => at(params, 'status') === 'input_required'))
    const requests = at(await get(taskId), 'result', 'inputRequests')
    const [key = ''] = Object.keys(requests as JsonObject) // there is one
    const answers = { taskId: String(taskId), inputResponses: { [key]: accept({ confirm: true }), other: {} } }
    expect((await modern(fixture.port, 'tasks/update', answers)).body).toMatchObject({
      result: { resultType: 'complete' },
    })
    await until(() => told().some(({ params }) => at(params, 'status') === 'completed'))
    const said = told().at(-1)
    expect(at(said, 'params', 'result', 'content', 0, 'text')).toBe('deleted a.txt')
    expect(at(said, 'params', '_meta', 'io.modelcontextprotocol/subscriptionId')).toBe('L')
  })

  test('makes room for the next when it has ended, and while none has there is no more', async () => {
    const mine = as('carol')
    const ids: unknown[] = []
    for (let count = 0; count < 50; count++) ids.push((await begin(slow, mine)).taskId)
    expect(new Set(ids).size).toBe(50)
    const { body } = await modern(fixture.port, 'tools/call', tool('failing_job'), mine)
    expect(at(body, 'error', 'message')).toContain('as many tasks as there may be')
    await modern(fixture.port, 'tasks/cancel', { taskId: String(ids[7]) }, mine)
    expect((await begin(slow, mine)).resultType).toBe('task')
    expect(at(await get(ids[7], mine), 'error', 'code')).toBe(-32602)
    expect(at(await get(ids[8], mine), 'result', 'status')).toBe('working')
    for (const taskId of ids) await modern(fixture.port, 'tasks/cancel', { taskId: String(taskId) }, mine)
  })
})

test('a call whose client goes is stopped, and what it would have been told goes nowhere', async () => {
  const leaving = new AbortController()
  const { body, headers } = modernCall('tools/call', tool('test_wait'))
  const waiting = postForText(fixture.port, body, headers, leaving.signal)
  setTimeout(() => leaving.abort(), 50)
  await expect(waiting).rejects.toThrow()
  await until(() => stopped.includes('test_wait'))
})

test('notifications are taken, and answers of a client are not', async () => {
  const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Content-Type': 'application/json' }
  const send = (body: object) =>
    ask(fixture.port, '/mcp/v1', { method: 'POST', headers, body: JSON.stringify(body) }, new Agent())
  expect((await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })).status).toBe(202)
  expect((await send({ jsonrpc: '2.0', id: 1, result: {} })).status).toBe(400)
})
