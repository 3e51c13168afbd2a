/** POST /mcp/v1 for clients of older revisions, and the errors of HTTP itself. */
import { Agent } from 'node:http'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { sendRequest, until } from '../../testing/client.ts'
import { anyone, type Caller } from '../core/caller.ts'
import type { Authentication } from '../credentials/types.ts'
import { type Fixture, startFixture } from '../testing/fixture-server.ts'
import { at, call, modern, modernCall, post, postForText, textOf } from '../testing/rpc.ts'

let fixture: Fixture
const stopped: string[] = []
beforeAll(async () => {
  fixture = await startFixture({
    stopped: name => stopped.push(name),
    allowedOrigins: ['https://app.example.com'],
    api: async ({ path }) => ({ status: 200, headers: [], body: `api ${path}` }),
  })
})
afterAll(() => fixture?.stop())

const json = { 'Content-Type': 'application/json' }
const initialize = (protocolVersion: string) =>
  call('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } })

describe('the endpoint', () => {
  test.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])(
    'answers initialize with the requested revision %s',
    async version => {
      const { status, body } = await post(fixture.port, initialize(version))
      expect([status, at(body, 'result', 'protocolVersion')]).toEqual([200, version])
      expect(at(body, 'result', 'serverInfo', 'name')).toBe('espalier-fixture')
      expect(at(body, 'result', 'capabilities')).toEqual({ tools: {}, resources: {}, prompts: {}, completions: {} })
    },
  )

  test.each(['2026-07-28', '1999-01-01', 'nonsense'])(
    'answers initialize for %s with the newest revision that has initialize',
    async version => {
      expect(at((await post(fixture.port, initialize(version))).body, 'result', 'protocolVersion')).toBe('2025-11-25')
    },
  )

  test('lists and calls tools, and does not list hidden tools', async () => {
    const { body } = await post(fixture.port, call('tools/list'))
    const tools = at(body, 'result', 'tools')
    expect(tools).toContainEqual(expect.objectContaining({ name: 'greet', inputSchema: expect.anything() }))
    expect(JSON.stringify(tools)).not.toContain('test_open')
    const greeted = await post(fixture.port, call('tools/call', { name: 'greet', arguments: { name: 'you' } }))
    expect(greeted.body).toEqual({
      jsonrpc: '2.0',
      id: 1,
      result: { content: [{ type: 'text', text: 'Hello, you!' }] },
    })
  })

  test('lists and reads resources and prompts, and completes arguments', async () => {
    const { body } = await post(fixture.port, call('resources/list'))
    expect(at(body, 'result', 'resources', 0, 'uri')).toBe('test://static-text')
    const read = await post(fixture.port, call('resources/read', { uri: 'test://template/7/data' }))
    expect(at(read.body, 'result', 'contents', 0, 'text')).toContain('Data for ID: 7')
    const templates = await post(fixture.port, call('resources/templates/list'))
    expect(at(templates.body, 'result', 'resourceTemplates', 0, 'uriTemplate')).toBe('test://template/{id}/data')
    const args = { arg1: 'a', arg2: 'b' }
    const got = await post(fixture.port, call('prompts/get', { name: 'test_prompt_with_arguments', arguments: args }))
    expect(at(got.body, 'result', 'messages', 0, 'content', 'text')).toContain("arg1='a'")
    const completed = await post(
      fixture.port,
      call('completion/complete', {
        ref: { type: 'ref/resource', uri: 'test://template/{id}/data' },
        argument: { name: 'id', value: '12' },
      }),
    )
    expect(at(completed.body, 'result')).toEqual({ completion: { values: ['12', '123'], total: 2, hasMore: false } })
  })

  test('answers ping and logging/setLevel, and accepts a notification and a response', async () => {
    expect((await post(fixture.port, call('ping'))).body).toEqual({ jsonrpc: '2.0', id: 1, result: {} })
    expect(at((await post(fixture.port, call('logging/setLevel', { level: 'debug' }))).body, 'result')).toEqual({})
    for (const body of [
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 7, result: {} },
    ])
      expect(await post(fixture.port, body)).toMatchObject({ status: 202, body: {} })
  })

  test('answers a batch with one response, in which each answer has the id of its request', async () => {
    const answer = await postForText(fixture.port, [
      call('ping', {}, 'a'),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      call('nothing', {}, 2),
      17,
    ])
    expect(answer.status).toBe(200)
    const answers: unknown[] = JSON.parse(answer.text)
    expect(answers.map(one => [at(one, 'id'), at(one, 'error', 'code')])).toEqual([
      ['a', undefined],
      [2, -32601],
      [null, -32600],
    ])
  })

  test.each([
    ['no messages', []],
    ['too many messages', Array.from({ length: 101 }, () => call('ping'))],
    ['an initialize request', [initialize('2025-03-26')]],
    ['a request of the newest revision', [modernCall('tools/list').body]],
  ])('refuses a batch with %s', async (_, batch) => {
    const { status, body } = await post(fixture.port, batch)
    expect([status, at(body, 'error', 'code'), 'id' in body]).toEqual([400, -32600, false])
  })

  test('sends increasing progress before the response', async () => {
    const params = { name: 'test_tool_with_progress', arguments: {}, _meta: { progressToken: 'p' } }
    const answer = await postForText(fixture.port, call('tools/call', params))
    expect(answer.headers['content-type']).toBe('text/event-stream')
    const messages = [...answer.text.matchAll(/^data: (.*)$/gm)].map(([, text = '']) => JSON.parse(text))
    expect(messages.map(one => at(one, 'params', 'progress') ?? at(one, 'id'))).toEqual([0, 50, 100, 1])
    const plain = await postForText(fixture.port, call('tools/call', params), { Accept: 'application/json' })
    expect(plain.headers['content-type']).toBe('application/json')
  })

  test('stops a call when its client disconnects', async () => {
    const leaving = new AbortController()
    const waiting = postForText(fixture.port, call('tools/call', { name: 'test_wait' }), {}, leaving.signal)
    setTimeout(() => leaving.abort(), 50)
    await expect(waiting).rejects.toThrow()
    await until(() => stopped.includes('test_wait'))
  })
})

describe('at the JSON-RPC level,', () => {
  test.each<[string, string | object, number, string, unknown, unknown?]>([
    ['a body that is not JSON', '{', -32700, 'Parse error', null],
    ['an empty body', '', -32700, 'Parse error', null],
    ['a message without a version', { id: 1, method: 'ping' }, -32600, 'Invalid Request', 1, 'jsonrpc must be "2.0"'],
    [
      'a message without a method',
      { jsonrpc: '2.0', id: 'x' },
      -32600,
      'Invalid Request',
      'x',
      'a message must have a method, or else a result or an error',
    ],
    ['an id that is null', { jsonrpc: '2.0', id: null, method: 'ping' }, -32600, 'Invalid Request', null],
    ['an id that is an object', { jsonrpc: '2.0', id: {}, method: 'ping' }, -32600, 'Invalid Request', null],
    ['a message that is not an object', '"ping"', -32600, 'Invalid Request', null, 'a message must be an object'],
    ['an unknown method', call('nothing'), -32601, 'Method not found', 1, 'unknown method nothing'],
    ['parameters that are a list', { ...call('ping'), params: [] }, -32602, 'Invalid params', 1],
    ['a call without a tool name', call('tools/call', {}), -32602, 'Invalid params', 1],
    ['an unknown tool', call('tools/call', { name: 'x' }), -32602, 'Invalid params', 1, 'unknown tool "x"'],
    ['invalid arguments', call('tools/call', { name: 'greet', arguments: 1 }), -32602, 'Invalid params', 1],
    ['a missing argument', call('tools/call', { name: 'greet' }), -32602, 'Invalid params', 1, 'name is required'],
    ['an unknown resource', call('resources/read', { uri: 'x://y' }), -32602, 'Invalid params', 1],
    ['an unknown prompt', call('prompts/get', { name: 'x' }), -32602, 'Invalid params', 1],
    ['an unknown log level', call('logging/setLevel', { level: 'x' }), -32602, 'Invalid params', 1],
    ['an invalid cursor', call('tools/list', { cursor: 'x' }), -32602, 'Invalid params', 1],
    ['a call that a tool refuses', call('tools/call', { name: 'test_refused' }), -32602, 'Invalid params', 1],
    ['a subscription without a session', call('resources/subscribe', { uri: 'x' }), -32601, 'Method not found', 1],
    [
      'a tool that requests input from the client',
      call('tools/call', { name: 'multi_input' }),
      -32602,
      'Invalid params',
      1,
    ],
  ])('%s causes an error with HTTP 200', async (_, sent, code, message, id, problem) => {
    const { status, body } = await post(fixture.port, sent)
    expect(status).toBe(200)
    expect(body).toMatchObject({ jsonrpc: '2.0', id, error: { code, message } })
    if (problem !== undefined) expect(at(body, 'error', 'data', 'problem')).toBe(problem)
  })

  test('an unexpected error contains only the id of its log entry', async () => {
    const { body } = await post(fixture.port, call('tools/call', { name: 'test_failure' }))
    expect(body).toMatchObject({ error: { code: -32603, message: 'Internal error' } })
    expect(JSON.stringify(body)).not.toMatch(/secret|postgres/)
    const id = /request ([\w-]+)$/.exec(String(at(body, 'error', 'data', 'problem')))?.[1] ?? 'none'
    expect(fixture.log.some(line => line.includes(id))).toBe(true)
  })

  test('if a tool refuses its arguments, the result is an error text for a model', async () => {
    const params = { name: 'test_region', arguments: { region: 'x', query: '' } }
    const answer = await post(fixture.port, call('tools/call', params))
    expect(at(answer.body, 'result', 'isError')).toBe(true)
    expect(textOf(answer)).toBe('Invalid arguments for test_region: query must NOT have fewer than 1 characters')
    const version = { 'MCP-Protocol-Version': '2025-11-25' }
    const missing = await post(fixture.port, call('tools/call', { name: 'greet' }), version)
    expect(at(missing.body, 'result', 'isError')).toBe(true)
    expect(textOf(missing)).toBe('Invalid arguments for greet: name is required')
  })

  test('deep nesting and the field name __proto__ are refused', async () => {
    const deep = `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}}`
    expect((await post(fixture.port, deep)).body).toMatchObject({ id: 1, error: { code: -32600 } })
    const polluted = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","__proto__":{"x":1}}}'
    const { body } = await post(fixture.port, polluted)
    expect(at(body, 'error', 'data', 'problem')).toBe('the name "__proto__" is not allowed')
  })
})

describe('at the HTTP level,', () => {
  const agent = new Agent()
  test.each<[string, string, Record<string, string>, string, number]>([
    ['GET', '/mcp/v1', { Accept: 'text/event-stream' }, '', 405],
    ['DELETE', '/mcp/v1', {}, '', 405],
    ['POST', '/health', json, '{}', 405],
    ['POST', '/mcp/v1', { 'Content-Type': 'text/plain' }, '{}', 415],
    ['POST', '/mcp/v1', {}, '{}', 415],
    ['POST', '/mcp', json, '{}', 404],
    ['GET', '/', {}, '', 404],
    ['POST', '/mcp/v1', { ...json, Origin: 'https://evil.example.com' }, '{}', 403],
    ['POST', '/mcp/v1', { ...json, Origin: 'null' }, '{}', 403],
    ['POST', '/mcp/v1', { ...json, Origin: 'app://localhost' }, '{}', 403],
    ['POST', '/mcp/v1', { ...json, Host: 'anybody@localhost' }, '{}', 403],
    ['POST', '/mcp/v1', { ...json, Host: 'evil.example.com' }, '{}', 403],
    ['GET', '/api/databases', { Origin: 'https://evil.example.com' }, '', 403],
  ])('%s %s with the headers %j is refused', async (method, path, headers, body, status) => {
    const answer = await sendRequest(fixture.port, path, { method, headers, ...(body === '' ? {} : { body }) }, agent)
    expect(answer.status).toBe(status)
    expect(JSON.parse(answer.text)).toEqual({ error: expect.any(String) })
    if (status === 405) expect(answer.headers.allow).toMatch(/POST|GET/)
  })

  test.each(['https://app.example.com', 'http://localhost:6274', 'http://127.0.0.1'])(
    '%s may send requests',
    async origin => {
      expect((await post(fixture.port, call('ping'), { Origin: origin })).status).toBe(200)
    },
  )

  test('a body of more than 10 MB is refused', async () => {
    const body = JSON.stringify(call('ping', { filler: 'x'.repeat(10_485_760) }))
    const answer = await sendRequest(fixture.port, '/mcp/v1', { method: 'POST', headers: json, body })
    expect([answer.status, JSON.parse(answer.text)]).toEqual([413, { error: expect.stringContaining('10485760') }])
    const fits = JSON.stringify(call('ping', { filler: 'x'.repeat(10_000_000) }))
    expect((await post(fixture.port, fits)).body).toMatchObject({ id: 1, result: {} })
  })

  test('/health reports name and version, and the API answers under /api/', async () => {
    const health = await sendRequest(fixture.port, '/health')
    expect(JSON.parse(health.text)).toEqual({ status: 'ok', server: 'espalier-fixture', version: '1.0.0' })
    expect((await sendRequest(fixture.port, '/api/user/info')).text).toBe('api /api/user/info')
  })

  test('an unknown revision is refused', async () => {
    const { status, body } = await post(fixture.port, call('ping'), { 'MCP-Protocol-Version': '2020-01-01' })
    expect([status, at(body, 'error', 'code'), at(body, 'id')]).toEqual([400, -32600, 1])
  })
})

describe('with authentication', () => {
  const reader: Caller = { ...anyone, kind: 'token', principal: 'token:reader', scopes: new Set(['mcp:read']) }
  const authenticated: (readonly [string | undefined, string])[] = []
  const authentication: Authentication = {
    authenticate: async (authorization, address) => {
      authenticated.push([authorization, address])
      if (authorization === 'Bearer reader') return { kind: 'caller', caller: reader }
      if (authorization === 'Bearer often') return { kind: 'limited', retryAfterSeconds: 60 }
      return { kind: 'refused', isMissing: authorization === undefined }
    },
  }
  let guarded: Fixture
  beforeAll(async () => {
    guarded = await startFixture({ authentication, resourceMetadata: 'https://auth.example.com/metadata' })
  })
  afterAll(() => guarded?.stop())
  const open = call('tools/call', { name: 'test_open' })

  test.each<[string, Record<string, string>, string]>([
    ['no token', {}, 'Bearer scope="mcp:read", resource_metadata="https://auth.example.com/metadata"'],
    [
      'an invalid token',
      { Authorization: 'Bearer x' },
      'Bearer scope="mcp:read", error="invalid_token", resource_metadata="https://auth.example.com/metadata"',
    ],
  ])('a request with %s is refused', async (_, headers, challenge) => {
    for (const body of [call('ping'), call('tools/list'), call('tools/call', { name: 'greet' }), '{', [open]]) {
      const answer = await post(guarded.port, body, headers)
      expect([answer.status, answer.body]).toEqual([401, { error: 'unauthorized' }])
      expect(answer.headers['www-authenticate']).toBe(challenge)
    }
  })

  test('an open tool needs no token, and accepts a call with an invalid token', async () => {
    const tokens: Record<string, string>[] = [{}, { Authorization: 'Bearer x' }, { Authorization: 'Bearer often' }]
    for (const headers of tokens)
      expect(textOf(await post(guarded.port, open, headers))).toBe('open to unauthenticated')
    expect(textOf(await modern(guarded.port, 'tools/call', { name: 'test_open' }))).toBe('open to unauthenticated')
    const large = call('tools/call', { name: 'test_open', arguments: { filler: 'x'.repeat(70_000) } })
    expect((await post(guarded.port, large)).status).toBe(401)
  })

  test('after too many failed attempts, a request is refused with 429 and Retry-After', async () => {
    const answer = await post(guarded.port, call('ping'), { Authorization: 'Bearer often' })
    expect([answer.status, answer.headers['retry-after'], typeof answer.body.error]).toEqual([429, '60', 'string'])
  })

  test('a token with the read scope cannot write, and the error names the missing scope', async () => {
    const headers = { Authorization: 'Bearer reader' }
    for (const answer of [
      await post(guarded.port, call('tools/call', { name: 'test_write' }), headers),
      await modern(guarded.port, 'tools/call', { name: 'test_write' }, { headers }),
    ]) {
      expect([answer.status, answer.body.error]).toEqual([403, 'the token lacks the scope mcp:write'])
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer error="insufficient_scope", scope="mcp:write"/)
    }
    expect((await post(guarded.port, call('tools/list'), headers)).status).toBe(200)
  })

  test("a tool receives the caller, and the client's address from trusted proxies", async () => {
    const headers = { Authorization: 'Bearer reader', 'X-Forwarded-For': '1.1.1.1, 198.51.100.7' }
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const params = { name: 'test_whoami', _meta: { traceparent } }
    const answer = textOf(await post(guarded.port, call('tools/call', params), headers))
    expect(JSON.parse(String(answer))).toEqual({ principal: 'token:reader', address: '198.51.100.7', traceparent })
    expect(authenticated.at(-1)).toEqual(['Bearer reader', '198.51.100.7'])
  })

  test('/health needs no token', async () => {
    expect((await sendRequest(guarded.port, '/health')).status).toBe(200)
  })
})

test('the server splits a long list into pages, and refuses a cursor of another list', async () => {
  const { manyResources } = await import('../testing/fixture-core.ts')
  const large = await startFixture({ more: [manyResources(250)] })
  onTestFinished(large.stop)
  const uris: unknown[] = []
  let cursor: unknown = ''
  for (let page = 0; cursor !== undefined; page++) {
    expect(page).toBeLessThan(4)
    const { body } = await post(large.port, call('resources/list', { cursor: String(cursor) }))
    const resources = at(body, 'result', 'resources')
    uris.push(...(Array.isArray(resources) ? resources.map(one => at(one, 'uri')) : []))
    cursor = at(body, 'result', 'nextCursor')
    if (page === 0) {
      const wrong = await post(large.port, call('tools/list', { cursor: String(cursor) }))
      expect(at(wrong.body, 'error', 'data', 'problem')).toBe(
        'cursor: belongs to another list, or the list has changed; list again without a cursor',
      )
    }
  }
  expect(new Set(uris).size).toBe(253)
})
