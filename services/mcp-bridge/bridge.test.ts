/**
 * The bridge as its clients see it: which client receives which response, sessions, streams, refused requests, and
 * restarts of the tool server.
 */
import { request } from 'node:http'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readMessage } from '../mcp-protocol/json-rpc.ts'
import { until } from '../testing/client.ts'
import { Exchange } from './exchange.ts'
import { startTestBridge, type TestBridge } from './testing/bridge.ts'

const call = (id: number | string, name: string, args: object = {}, meta?: object) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args, ...(meta && { _meta: meta }) },
})

/** The text that the scripted server's tool returned. */
function resultOf(text: string): { [key: string]: unknown } {
  const line = text.startsWith('{') ? text : (/^data: (.*"result".*)$/m.exec(text)?.[1] ?? 'null')
  return JSON.parse(JSON.parse(line).result.content[0].text)
}

type Listener = { readonly text: () => string; readonly headers: () => object; close(): void }

/** Opens a stream of the session and reads it in the background. */
function listenTo(port: number, headers: Record<string, string>, path = '/mcp'): Listener {
  let text = ''
  let got: object = {}
  const options = { host: '127.0.0.1', port, path, headers: { Accept: 'text/event-stream', ...headers } }
  const outgoing = request(options, response => {
    got = response.headers
    response.setEncoding('utf8').on('data', piece => {
      text += piece
    })
    response.on('error', () => {})
  })
  outgoing.on('error', () => {})
  outgoing.end()
  return { text: () => text, headers: () => got, close: () => outgoing.destroy() }
}

const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const modernHeaders = (method: string, name?: string) => ({
  'MCP-Protocol-Version': '2026-07-28',
  'Mcp-Method': method,
  ...(name !== undefined && { 'Mcp-Name': name }),
})

let bridge: TestBridge
beforeAll(async () => {
  bridge = await startTestBridge({
    server: { sse_keepalive_interval: '100ms', cors: { enabled: true, allowed_origins: ['https://app.example.com'] } },
    session: { max_sessions: 12 },
  })
})
afterAll(() => bridge.stop())

test('a port in use is reported with its configuration key', async () => {
  await expect(startTestBridge({ port: bridge.port })).rejects.toThrow(
    `server.listen: cannot listen on port ${bridge.port} of 127.0.0.1: another program uses this port`,
  )
})

describe('responses reach the right client', () => {
  test('four sessions that use the id 1 for every request get their own 240 answers', async () => {
    const sessions = await Promise.all([1, 2, 3, 4].map(() => bridge.session()))
    const indexes = Array.from({ length: 240 }, (_, index) => index)
    const answers = await Promise.all(
      indexes.map(index => bridge.post(call(1, 'slow', { index, ms: (index * 7) % 40 }), sessions[index % 4])),
    )
    expect(answers.map(({ text }) => resultOf(text).index)).toEqual(indexes)
    expect(new Set(answers.map(({ text }) => JSON.parse(text).id))).toEqual(new Set([1]))
    await Promise.all(sessions.map(headers => bridge.send('/mcp', { method: 'DELETE', headers })))
  })

  test('returns ids and progress tokens as the client chose them', async () => {
    const headers = await bridge.session()
    const answer = await bridge.post(call('a-1', 'progress', {}, { progressToken: 'mine' }), headers)
    expect(answer.headers['content-type']).toBe('text/event-stream')
    const events = [...answer.text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data))
    expect(events.slice(0, 3).map(({ params }) => [params.progressToken, params.progress])).toEqual([
      ['mine', 1],
      ['mine', 2],
      ['mine', 3],
    ])
    expect(events.at(-1).id).toBe('a-1')
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test('sends only JSON to a client that accepts no stream', async () => {
    const headers = await bridge.session()
    const answer = await bridge.post(call(1, 'progress', { done: true }, { progressToken: 5 }), {
      ...headers,
      Accept: 'application/json',
    })
    expect(answer.headers['content-type']).toBe('application/json')
    expect(resultOf(answer.text)).toEqual({ done: true })
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test('a cancellation cancels only the request of its own session', async () => {
    const [one, other] = await Promise.all([bridge.session(), bridge.session()])
    const slow = bridge.post(call(7, 'slow', { ms: 300 }), one)
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
    const before = resultOf((await bridge.post(call(1, 'cancelled'), one)).text)
    await bridge.post(cancel, other)
    expect(resultOf((await bridge.post(call(1, 'cancelled'), one)).text)).toEqual(before)
    expect((await bridge.post(cancel, one)).status).toBe(202)
    const after = resultOf((await bridge.post(call(1, 'cancelled'), one)).text)
    expect(Number(after.length)).toBe(Number(before.length) + 1)
    await slow
    for (const headers of [one, other]) await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test('a request of the server reaches only its session, and only that session can answer', async () => {
    const [one, other] = await Promise.all([bridge.session(), bridge.session()])
    const streams = [listenTo(bridge.port, one), listenTo(bridge.port, other)]
    const pending = bridge.post(call(1, 'ask', { question: 'sure?' }), { ...one, Accept: 'application/json' })
    await until(() => streams[0]?.text().includes('elicitation/create') === true)
    const elicitation = JSON.parse(/^data: (.*elicitation.*)$/m.exec(streams[0]?.text() ?? '')?.[1] ?? '')
    expect(elicitation.params).toEqual({ message: 'sure?', _meta: {} })
    await bridge.post({ jsonrpc: '2.0', id: elicitation.id, result: { action: 'stolen' } }, other)
    await bridge.post({ jsonrpc: '2.0', id: elicitation.id, result: { action: 'accept' } }, one)
    expect(resultOf((await pending).text)).toEqual({ action: 'accept' })
    expect(streams[1]?.text()).not.toContain('elicitation')
    for (const stream of streams) stream.close()
    for (const headers of [one, other]) await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test("`_meta` fields of a client under the bridge's prefix are removed", async () => {
    const headers = await bridge.session()
    const lies = { 'espalier.dev/caller': { principal: 'root' }, 'espalier.dev/connection': 's1', mine: 1 }
    const { meta } = resultOf((await bridge.post(call(1, 'whoami', {}, lies), headers)).text)
    expect(meta).toMatchObject({
      mine: 1,
      'espalier.dev/caller': { kind: 'anyone', principal: 'anyone', address: '127.0.0.1' },
    })
    const shown = await bridge.post(call(1, 'log', { a: 1 }), headers)
    expect(shown.text).toContain('notifications/message')
    expect(shown.text).not.toContain('espalier.dev')
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })
})

describe('sessions', () => {
  test('initialize creates a session, and DELETE ends it', async () => {
    const headers = await bridge.session()
    expect(headers['Mcp-Session-Id']).toMatch(/^[\w-]{32}$/)
    expect((await bridge.send('/mcp', { method: 'DELETE' })).status).toBe(400)
    const ended = await bridge.send('/', { method: 'DELETE', headers })
    expect([ended.status, ended.text]).toEqual([204, ''])
    const later = await bridge.post(call(1, 'whoami'), headers)
    expect([later.status, Object.keys(JSON.parse(later.text))]).toEqual([404, ['error']])
  })

  test('their number is limited', async () => {
    const sessions = await Promise.all(Array.from({ length: 12 }, () => bridge.session()))
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } }
    const refused = await bridge.post({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
    expect(refused.status).toBe(503)
    await Promise.all(sessions.map(headers => bridge.send('/mcp', { method: 'DELETE', headers })))
  })

  test('an unknown session causes a 404 for every method', async () => {
    const headers = { 'Mcp-Session-Id': 'nobody', Accept: 'text/event-stream', 'Content-Type': 'application/json' }
    const body = JSON.stringify(call(1, 'whoami'))
    for (const sent of [{ method: 'POST', body }, { method: 'GET' }, { method: 'DELETE' }])
      expect((await bridge.send('/mcp', { ...sent, headers })).status).toBe(404)
  })

  test('answers a request without a session, but refuses a subscription', async () => {
    expect(resultOf((await bridge.post(call(1, 'whoami'))).text).args).toEqual({})
    const subscribe = { jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'a:b' } }
    expect(JSON.parse((await bridge.post(subscribe)).text).error.code).toBe(-32_600)
  })
})

describe('streams', () => {
  test('send changes, keep the connection open, and report why they end', async () => {
    const headers = await bridge.session()
    const stream = listenTo(bridge.port, headers)
    const params = { method: 'notifications/tools/list_changed', params: {} }
    await bridge.post(call(1, 'announce', params), headers)
    await until(() => stream.text().includes('list_changed') && stream.text().includes(': keepalive\n\n'))
    expect(stream.text()).toContain(
      'event: message\nid: 0-1\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"',
    )
    await bridge.send('/mcp', { method: 'DELETE', headers })
    await until(() => stream.text().includes('event: close\n'))
  })

  test('buffer events within limits while no client is connected, and do not repeat seen events', async () => {
    const headers = await bridge.session()
    const announce = (n: number) =>
      bridge.post(
        call(1, 'announce', { method: 'notifications/resources/updated', params: { uri: `a:${n}` } }),
        headers,
      )
    for (let n = 1; n <= 103; n += 1) await announce(n)
    const first = listenTo(bridge.port, headers)
    await until(() => first.text().includes('"a:103"'))
    expect(first.text()).not.toContain('"a:3"')
    expect(first.text()).toContain('"a:4"')
    first.close()
    const resumed = listenTo(bridge.port, { ...headers, 'Last-Event-ID': '0-101' })
    await until(() => resumed.text().includes('"a:103"'))
    expect(resumed.text()).toContain('"a:102"')
    expect(resumed.text()).not.toContain('"a:101"')
    resumed.close()
    expect(
      (await bridge.send('/mcp', { headers: { ...headers, Accept: 'text/event-stream', 'Last-Event-ID': 'x' } }))
        .status,
    ).toBe(400)
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test('allow a client with a broken connection to read a response again by the id of its first event', async () => {
    const headers = await bridge.session()
    const leaving = new AbortController()
    const options = {
      host: '127.0.0.1',
      port: bridge.port,
      path: '/mcp',
      method: 'POST',
      headers: { ...headers, Accept: 'application/json, text/event-stream', 'Content-Type': 'application/json' },
    }
    let text = ''
    const broken = request({ ...options, signal: leaving.signal }, response => {
      response
        .on('error', () => {})
        .on('data', piece => {
          text += piece
          leaving.abort()
        })
    })
    broken.on('error', () => {}).end(JSON.stringify(call(9, 'progress', { ms: 40 }, { progressToken: 1 })))
    await until(() => text !== '')
    const id = /^id: (\d+-0)$/m.exec(text)?.[1] ?? ''
    const resumed = await bridge.send('/mcp', {
      headers: { ...headers, Accept: 'text/event-stream', 'Last-Event-ID': id },
    })
    expect(resumed.text).toContain('"progress":3')
    expect(resumed.text).toContain('"id":9')
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })

  test("without a session receive the notifications of the same caller's sessions", async () => {
    const stream = listenTo(bridge.port, {}, '/')
    const headers = await bridge.session()
    await until(() => stream.text().includes('keepalive'))
    await bridge.post(
      call(1, 'announce', { method: 'notifications/resources/updated', params: { uri: 'a:b' } }),
      headers,
    )
    await until(() => stream.text().includes('a:b'))
    stream.close()
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })
})

describe('requests of 2026-07-28', () => {
  const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover', params: { _meta: modernMeta } }

  test('need no session, and each has its own connection', async () => {
    expect((await bridge.post(discover, modernHeaders('server/discover'))).status).toBe(200)
    const whoami = call(3, 'whoami', {}, modernMeta)
    const { meta } = resultOf((await bridge.post(whoami, modernHeaders('tools/call', 'whoami'))).text)
    expect(meta).toMatchObject({ ...modernMeta, 'espalier.dev/connection': expect.stringMatching(/^r\d+$/) })
  })

  test('are refused if header and body differ, or the version is unknown', async () => {
    const code = async (message: object, headers: Record<string, string>) => {
      const { status, text } = await bridge.post(message, headers)
      return [status, JSON.parse(text).error.code]
    }
    expect(await code(discover, {})).toEqual([400, -32_020])
    expect(await code(discover, modernHeaders('tools/list'))).toEqual([400, -32_020])
    const whoami = call(3, 'whoami', {}, modernMeta)
    expect(await code(whoami, modernHeaders('tools/call', 'slow'))).toEqual([400, -32_020])
    const encoded = `=?base64?${Buffer.from('whoami').toString('base64')}?=`
    expect((await bridge.post(whoami, modernHeaders('tools/call', encoded))).status).toBe(200)
    const later = {
      ...discover,
      params: { _meta: { ...modernMeta, 'io.modelcontextprotocol/protocolVersion': 'v999' } },
    }
    const headers = { ...modernHeaders('server/discover'), 'MCP-Protocol-Version': 'v999' }
    expect(await code(later, headers)).toEqual([400, -32_022])
    expect(await code({ ...discover, params: {} }, modernHeaders('server/discover'))).toEqual([400, -32_602])
    expect(await code({ ...discover, method: 'nothing' }, modernHeaders('nothing'))).toEqual([404, -32_601])
  })

  test('a subscription has the id that the client chose', async () => {
    const listen = {
      jsonrpc: '2.0',
      id: 'sub',
      method: 'subscriptions/listen',
      params: { _meta: modernMeta, notifications: {} },
    }
    const { text } = await bridge.post(listen, modernHeaders('subscriptions/listen'))
    expect(text.match(/"io.modelcontextprotocol\/subscriptionId":"sub"/g)).toHaveLength(3)
    expect(text).not.toContain('espalier.dev')
  })

  test('are cancelled when their client disconnects', async () => {
    const before = resultOf((await bridge.post(call(1, 'cancelled'))).text)
    const leaving = new AbortController()
    const headers = { ...modernHeaders('tools/call', 'slow'), 'Content-Type': 'application/json' }
    const body = JSON.stringify(call(3, 'slow', { ms: 2_000 }, modernMeta))
    const pending = bridge.send('/mcp', { method: 'POST', headers, body, signal: leaving.signal }).catch(() => {})
    setTimeout(() => leaving.abort(), 100)
    await pending
    await until(
      async () => Number(resultOf((await bridge.post(call(1, 'cancelled'))).text).length) > Number(before.length),
    )
  })
})

describe('refused requests', () => {
  test.each([
    ['no JSON', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{' }, 400],
    ['no JSON-RPC', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"id":1}' }, 400],
    ['another content type', { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: '{}' }, 415],
    ['a GET without Accept: text/event-stream', { method: 'GET' }, 406],
    ['another method', { method: 'PUT' }, 405],
    ['a foreign origin', { method: 'POST', headers: { Origin: 'https://evil.example.com' }, body: '{}' }, 403],
    ['the origin null', { method: 'POST', headers: { Origin: 'null' }, body: '{}' }, 403],
    ['an origin with another scheme', { method: 'POST', headers: { Origin: 'app://localhost' }, body: '{}' }, 403],
    ['a foreign host', { method: 'POST', headers: { Host: 'evil.example.com' }, body: '{}' }, 403],
  ])('%s', async (_, sent, status) => {
    const answer = await bridge.send('/mcp', sent)
    expect([answer.status, typeof JSON.parse(answer.text).error]).toEqual([status, 'string'])
  })

  test('a body over 10 MB, and an unknown path', async () => {
    const headers = { 'Content-Type': 'application/json' }
    const body = JSON.stringify({ a: 'x'.repeat(10_485_760) })
    expect((await bridge.send('/mcp', { method: 'POST', headers, body })).status).toBe(413)
    expect((await bridge.send('/other')).status).toBe(404)
  })

  test('an endlessly nested body, without an effect on other requests', async () => {
    const headers = { 'Content-Type': 'application/json' }
    const deep = '['.repeat(5_000) + ']'.repeat(5_000)
    for (let tries = 0; tries < 110; tries += 1) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${deep}}}`
      const answer = await bridge.send('/mcp', { method: 'POST', headers, body: tries % 2 === 0 ? body : `[${body}]` })
      expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('nested more than 64 deep')])
    }
    expect((await bridge.post(call(1, 'whoami'))).status).toBe(200)
  })

  test('an unknown version in a session', async () => {
    const headers = await bridge.session()
    expect((await bridge.post(call(1, 'whoami'), { ...headers, 'MCP-Protocol-Version': '2001-01-01' })).status).toBe(
      400,
    )
    await bridge.send('/mcp', { method: 'DELETE', headers })
  })
})

test('a page of the configured origin receives the documented CORS headers without a token', async () => {
  const headers = { Origin: 'https://app.example.com', 'Access-Control-Request-Method': 'POST' }
  const answer = await bridge.send('/mcp', { method: 'OPTIONS', headers })
  expect(answer.status).toBe(204)
  expect(answer.headers).toMatchObject({
    'access-control-allow-origin': 'https://app.example.com',
    'access-control-allow-methods': 'GET, POST, DELETE, OPTIONS',
    'access-control-allow-headers': 'Authorization, Content-Type, Mcp-Session-Id',
    'access-control-expose-headers': 'Mcp-Session-Id',
    'access-control-allow-credentials': 'true',
    'access-control-max-age': '3600',
  })
})

test('answers a batch of 2025-03-26 with one response, and refuses initialize in a batch', async () => {
  const headers = await bridge.session({}, '2025-03-26')
  const answer = await bridge.post([call(1, 'slow', { n: 1 }), call(2, 'slow', { n: 2 })], headers)
  expect(JSON.parse(answer.text).map(({ id }: { id: number }) => id)).toEqual([1, 2])
  expect((await bridge.post([{ jsonrpc: '2.0', id: 1, method: 'initialize' }], headers)).status).toBe(400)
  expect((await bridge.post([], headers)).status).toBe(400)
  await bridge.send('/mcp', { method: 'DELETE', headers })
})

test('either no message of a batch runs, or each message has its own answer', async () => {
  const headers = await bridge.session({}, '2025-03-26')
  const before = JSON.parse((await bridge.post(call(0, 'slow', { n: 0 }), headers)).text)
  expect(before.id).toBe(0)
  const foreign = { ...headers, 'Mcp-Session-Id': 'of-nobody' }
  expect((await bridge.post([call(1, 'slow', { n: 1 })], foreign)).status).toBe(404)
  // More messages than one session may run at once.
  const many = Array.from({ length: 100 }, (_, n) => call(n, 'slow', { n }))
  const [first, second] = await Promise.all([bridge.post(many, headers), bridge.post(many, headers)])
  const answers = [first, second].map(({ status, text }) => {
    expect(status).toBe(200)
    return JSON.parse(text) as { id: number; error?: { data?: unknown } }[] // the bridge writes an array of responses
  })
  for (const one of answers) expect(one.map(({ id }) => id)).toEqual(many.map(({ id }) => id))
  const refused = answers.flat().filter(({ error }) => error !== undefined)
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.length).toBeLessThan(200)
  await bridge.send('/mcp', { method: 'DELETE', headers })
})

test('no input crashes the bridge, and it answers every request of a session by its id', async () => {
  const session = await bridge.session()
  const method = fc.constantFrom(
    'ping',
    'tools/list',
    'resources/subscribe',
    'notifications/cancelled',
    'nothing',
    '__proto__',
  )
  const message = fc.record(
    {
      jsonrpc: fc.constantFrom('2.0', '1.0'),
      id: fc.oneof(fc.integer(), fc.string(), fc.constant(null), fc.double()),
      method: fc.oneof(method, fc.string()),
      params: fc.oneof(
        fc.object({ maxDepth: 2 }),
        fc.record({ _meta: fc.oneof(fc.object(), fc.constant(modernMeta)) }),
        fc.jsonValue(),
      ),
      result: fc.jsonValue(),
    },
    { requiredKeys: [] },
  )
  const body = fc.oneof(message, fc.array(message, { maxLength: 4 }), fc.jsonValue())
  const token = fc.string({ minLength: 1, maxLength: 20 }).filter(text => /^[!-~]+$/.test(text))
  const headers = fc.record(
    {
      'Mcp-Session-Id': fc.oneof(token, fc.constant(session['Mcp-Session-Id'] ?? '')),
      'MCP-Protocol-Version': fc.constantFrom('2025-11-25', '2026-07-28', '9', 'v1'),
      'Mcp-Method': method,
      'Mcp-Name': token,
      'Last-Event-ID': token,
    },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(body, headers, async (sent, sentHeaders) => {
      const { status, text } = await bridge.post(sent, sentHeaders)
      expect(status).toBeLessThan(500)
      if (text !== '') JSON.parse(text)
    }),
    { numRuns: 300 },
  )
  expect((await bridge.post({ jsonrpc: '2.0', id: 7, method: 'ping' }, session)).text).toBe(
    '{"jsonrpc":"2.0","id":7,"result":{}}',
  )
})

test('no output of the tool server makes the exchange throw', () => {
  const key = fc.constantFrom(
    'id',
    'method',
    'params',
    'result',
    'error',
    'jsonrpc',
    '_meta',
    'progressToken',
    'espalier.dev/connection',
  )
  const value = fc.oneof(
    fc.constantFrom('2.0', 's1', 1, 2, 'notifications/progress', 'ping', 'elicitation/create'),
    fc.jsonValue(),
  )
  const sent: unknown[] = []
  const exchange = new Exchange({ send: message => sent.push(message) > 0, onUnaddressed: () => {} })
  const owner = { connection: 's1', deliver: () => true }
  exchange.open(owner)
  fc.assert(
    fc.property(fc.dictionary(key, fc.oneof(value, fc.dictionary(key, value))), written => {
      const common = { owner, fields: {}, onMessage: () => {}, timeoutMs: 1_000 }
      void exchange.request({ ...common, message: { kind: 'request', id: 1, method: 'ping', params: {} } })
      const message = readMessage({ jsonrpc: '2.0', ...written })
      if (message.kind !== 'invalid') exchange.receive(message)
    }),
  )
  exchange.close(owner)
  expect(exchange.inFlight).toBe(0)
})
