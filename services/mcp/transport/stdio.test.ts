/**
 * The fixture over standard input and output: as a program with one client, and in this process with one client or with
 * a bridge's clients.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { until } from '../../testing/client.ts'
import { fixtureCore } from '../testing/fixture-core.ts'
import { fixtureProgram, sealingKey } from '../testing/fixture-server.ts'
import { at, call, modernCall } from '../testing/rpc.ts'
import { createTransports } from './index.ts'
import { serveStdio } from './stdio.ts'

const parsed = (text: string): JsonObject[] =>
  text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line))

/** Connects the transport to pipes of this process. */
function connect(maximumLineBytes = 100_000) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const stopped: string[] = []
  const core = fixtureCore({ stopped: name => stopped.push(name) })
  const logger = { error: () => {}, warn: () => {} }
  const transports = createTransports({ core, logger, sealingKey, taskDelayMs: 20 })
  const ended = serveStdio({ transports, input, output, maximumLineBytes, graceMs: 100 })
  let text = ''
  output.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  onTestFinished(async () => {
    input.end()
    await ended
    transports.modern.close()
  })
  const messages = () => parsed(text)
  const send = (...messages: (object | string)[]) => {
    for (const one of messages) input.write(`${typeof one === 'string' ? one : JSON.stringify(one)}\n`)
  }
  const answerTo = async (id: unknown): Promise<JsonObject> => {
    await until(() => messages().some(one => one.id === id && one.method === undefined))
    return messages().find(one => one.id === id && one.method === undefined) ?? {}
  }
  return { send, messages, answerTo, core, stopped, input, ended }
}

const initialize = (capabilities: JsonObject = {}, id: string | number = 'init') =>
  call('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 't', version: '1' } }, id)
const cancelled = (requestId: string | number, params: JsonObject = {}) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, ...params },
})

describe('the program', () => {
  test('answers line by line, writes nothing else, and stops at the end of input', async () => {
    const child = spawn(process.execPath, [fixtureProgram])
    let text = ''
    child.stdout.setEncoding('utf8').on('data', chunk => {
      text += chunk
    })
    const lines = [
      initialize(),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      'no JSON',
      call('ping', {}, 2),
    ]
    child.stdin.end(`${lines.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')}\n`)
    const [code] = await once(child, 'close')
    expect(code).toBe(0)
    expect(parsed(text).map(({ id, error }) => [id, at(error, 'code')])).toEqual(
      expect.arrayContaining([
        ['init', undefined],
        [null, -32700],
        [2, undefined],
      ]),
    )
    expect(parsed(text)).toHaveLength(3)
  })
})

describe('the transport', () => {
  test('stops running requests when its input ends', async () => {
    const { send, stopped, input, ended } = connect()
    send(initialize(), call('tools/call', { name: 'test_wait' }, 1))
    await new Promise(resolve => setTimeout(resolve, 30))
    input.end()
    await ended
    await until(() => stopped.includes('test_wait'))
  })
})

describe('an older client', () => {
  test('receives requests for the input that a call needs, in as many rounds as necessary', async () => {
    const { send, messages, answerTo } = connect()
    send(initialize({ elicitation: {} }), call('tools/call', { name: 'test_input_required_result_multi_round' }, 1))
    for (const [round, content] of [{ name: 'Ann' }, { color: 'red' }].entries()) {
      const elicitations = () => messages().filter(({ method }) => method === 'elicitation/create')
      await until(() => elicitations().length > round)
      send({ jsonrpc: '2.0', id: elicitations()[round]?.id, result: { action: 'accept', content } })
    }
    expect(at(await answerTo(1), 'result', 'content', 0, 'text')).toBe('Ann likes red')
  })

  test('receives no kind of request that it has not declared', async () => {
    const { send, messages, answerTo } = connect()
    send(initialize({ sampling: {} }), call('tools/call', { name: 'test_input_required_result_elicitation' }, 1))
    expect(at(await answerTo(1), 'error', 'code')).toBe(-32602)
    expect(messages().filter(({ method }) => method !== undefined)).toEqual([])
  })

  test('that answers with an error makes only its own call fail', async () => {
    const { send, messages, answerTo } = connect()
    send(initialize({ roots: {} }), call('tools/call', { name: 'test_input_required_result_list_roots' }, 1))
    await until(() => messages().some(({ method }) => method === 'roots/list'))
    const id = messages().find(({ method }) => method === 'roots/list')?.id
    const failure = { jsonrpc: '2.0', id, error: { code: -1, message: 'no roots here' } }
    send(failure, failure)
    expect(at(await answerTo(1), 'error', 'data', 'problem')).toBe('the client failed: no roots here')
    send(call('ping', {}, 2))
    expect(at(await answerTo(2), 'result')).toEqual({})
  })

  test('receives no response to a cancelled request', async () => {
    const { send, messages, stopped, answerTo } = connect()
    send(initialize({ elicitation: {} }), call('tools/call', { name: 'test_wait' }, 1))
    send(call('tools/call', { name: 'test_elicitation', arguments: { message: 'x' } }, 2))
    await until(() => messages().some(({ method }) => method === 'elicitation/create'))
    send(cancelled(1), cancelled(2), cancelled(99))
    await until(() => stopped.includes('test_wait'))
    await until(() => messages().some(({ method }) => method === 'notifications/cancelled'))
    send(call('ping', {}, 3))
    await answerTo(3)
    expect(messages().filter(({ id, method }) => method === undefined && (id === 1 || id === 2))).toEqual([])
  })

  test('receives log messages of its level and above, and changes of resources that it subscribes to', async () => {
    const { send, messages, answerTo, core } = connect()
    send(
      initialize(),
      call('logging/setLevel', { level: 'error' }, 1),
      call('tools/call', { name: 'test_tool_with_logging' }, 2),
    )
    await answerTo(2)
    expect(messages().some(({ method }) => method === 'notifications/message')).toBe(false)
    send(call('resources/subscribe', { uri: 'test://a' }, 3), call('resources/subscribe', { uri: 'test://b' }, 4))
    send(call('resources/unsubscribe', { uri: 'test://b' }, 5))
    await answerTo(5)
    for (const uri of ['test://a', 'test://b', 'test://c']) core.announce({ kind: 'resource', uri })
    core.announce({ kind: 'tools' })
    await until(() => messages().some(({ method }) => method === 'notifications/tools/list_changed'))
    const updated = messages().filter(({ method }) => method === 'notifications/resources/updated')
    expect(updated.map(({ params }) => params)).toEqual([{ uri: 'test://a' }])
  })

  test('cannot use an id twice at the same time', async () => {
    const { send, messages } = connect()
    send(initialize(), call('tools/call', { name: 'test_wait' }, 1), call('ping', {}, 1))
    await until(() =>
      messages().some(({ error }) => at(error, 'data', 'problem') === 'a request with this id is running'),
    )
  })
})

describe('a client of the newest revision', () => {
  const request = (method: string, params: JsonObject = {}, id: string | number = 1) =>
    modernCall(method, params, { id }).body

  test('receives responses in its format, and cannot send initialize later', async () => {
    const { send, answerTo } = connect()
    send(request('server/discover', {}, 0), request('tools/list', {}, 1), initialize())
    expect(at(await answerTo(0), 'result', 'supportedVersions')).toEqual(['2026-07-28'])
    expect(at(await answerTo(1), 'result', 'resultType')).toBe('complete')
    expect(at(await answerTo('init'), 'error')).toMatchObject({ code: -32022, data: { requested: '2025-11-25' } })
    send(call('tools/list', {}, 2))
    expect(at(await answerTo(2), 'error', 'code')).toBe(-32602)
  })

  test('receives no unrequested notifications, even if its first message is invalid', async () => {
    const { send, messages, core, answerTo } = connect()
    send({ jsonrpc: '2.0', id: 0, method: 1 }, request('tools/list', {}, 1))
    await answerTo(1)
    core.announce({ kind: 'tools' })
    send(request('tools/list', {}, 2))
    await answerTo(2)
    expect(messages().map(({ id }) => id)).toEqual([0, 1, 2])
  })

  test('may continue with initialize after server/discover', async () => {
    const { send, answerTo } = connect()
    send(request('server/discover', {}, 0), initialize(), call('ping', {}, 2))
    expect(at(await answerTo('init'), 'result', 'protocolVersion')).toBe('2025-11-25')
    expect(at(await answerTo(2), 'result')).toEqual({})
  })

  test('listens until it cancels, and then receives no response', async () => {
    const { send, messages, core, answerTo } = connect()
    send(request('subscriptions/listen', { notifications: { toolsListChanged: true } }, 'L'))
    await until(() => messages().length === 1)
    core.announce({ kind: 'tools' })
    core.announce({ kind: 'prompts' })
    await until(() => messages().length === 2)
    send(cancelled('L'), request('tools/list', {}, 2))
    await answerTo(2)
    core.announce({ kind: 'tools' })
    expect(messages().map(({ method, id }) => method ?? id)).toEqual([
      'notifications/subscriptions/acknowledged',
      'notifications/tools/list_changed',
      2,
    ])
  })
})

describe('clients of a bridge', () => {
  const of = (connection: string, message: JsonObject, caller?: JsonObject): JsonObject => {
    const params = (message.params ?? {}) as JsonObject // The tests write `params` as an object.
    // The tests write `_meta` as an object, or omit it.
    const meta = { ...(params._meta as JsonObject), 'espalier.dev/connection': connection }
    return {
      ...message,
      params: { ...params, _meta: { ...meta, ...(caller === undefined ? {} : { 'espalier.dev/caller': caller }) } },
    }
  }
  const reader = { kind: 'client', principal: 'client:a', username: 'ann', scopes: ['mcp:read'], session: 's' }
  const connectionOf = (message: JsonObject) => at(message, 'params', '_meta', 'espalier.dev/connection')

  test('each have their own revision, requests and notifications', async () => {
    const { send, messages, answerTo, core } = connect()
    send(initialize({}, 'own'))
    expect(at(await answerTo('own'), 'result', 'capabilities', 'experimental')).toEqual({ 'espalier.dev/bridge': {} })
    send(of('one', initialize({ elicitation: {} }, 1)), of('two', initialize({}, 2)))
    send(of('three', modernCall('tools/list', {}, { id: 3 }).body))
    expect(at(await answerTo(3), 'result', 'resultType')).toBe('complete')
    send(of('one', call('tools/call', { name: 'test_elicitation', arguments: { message: 'x' } }, 4)))
    send(of('two', call('resources/subscribe', { uri: 'test://a' }, 5)))
    await until(() => messages().some(({ method }) => method === 'elicitation/create'))
    const elicitation = messages().find(({ method }) => method === 'elicitation/create') ?? {}
    expect(connectionOf(elicitation)).toBe('one')
    send({ jsonrpc: '2.0', id: elicitation.id, result: { action: 'decline' } })
    expect(at(await answerTo(4), 'result', 'content', 0, 'text')).toContain('action=decline')
    await answerTo(5)
    core.announce({ kind: 'resource', uri: 'test://a' })
    core.announce({ kind: 'tools' })
    await until(() => messages().filter(({ method }) => method === 'notifications/tools/list_changed').length === 3)
    const changes = messages().filter(({ method }) => method?.toString().endsWith('list_changed'))
    expect(changes.map(connectionOf)).toEqual([undefined, 'one', 'two'])
    expect(
      messages()
        .filter(({ method }) => method === 'notifications/resources/updated')
        .map(connectionOf),
    ).toEqual(['two'])
  })

  test('lose their connections when the bridge closes them', async () => {
    const { send, messages, stopped, core, answerTo } = connect()
    send(of('one', initialize({}, 1)), of('one', call('tools/call', { name: 'test_wait' }, 2)))
    await answerTo(1)
    send(of('one', { jsonrpc: '2.0', method: 'notifications/espalier.dev/closed' }))
    await until(() => stopped.includes('test_wait'))
    // A late message does not start a new connection.
    send(of('one', cancelled(2)), call('ping', {}, 3))
    await answerTo(3)
    const before = messages().filter(message => connectionOf(message) !== undefined).length
    core.announce({ kind: 'tools' })
    await until(() => messages().some(({ method }) => method === 'notifications/tools/list_changed'))
    expect(messages().filter(message => connectionOf(message) !== undefined).length).toBe(before)
  })

  test('have the names and rights that the bridge sends', async () => {
    const { send, answerTo } = connect()
    const calls = (name: string, id: number) => call('tools/call', { name }, id)
    const from = { ...reader, address: '192.0.2.1' }
    send(of('one', calls('test_whoami', 1), from), of('one', calls('test_write', 2), reader))
    send(of('one', calls('test_whoami', 3), { principal: 5 }))
    expect(JSON.parse(String(at(await answerTo(1), 'result', 'content', 0, 'text')))).toEqual({
      principal: 'client:a',
      address: '192.0.2.1',
    })
    expect(at(await answerTo(2), 'error', 'data', 'scopes')).toEqual(['mcp:write'])
    expect(at(await answerTo(3), 'error', 'data', 'scopes')).toEqual(['mcp:read'])
    const modern = modernCall('tools/call', { name: 'test_write' }, { id: 4 }).body
    send(of('two', modern, reader))
    expect(at(await answerTo(4), 'error', 'data', 'scopes')).toEqual(['mcp:write'])
  })
})

describe('lines', () => {
  test('that are too long are refused, and the next line is answered', async () => {
    const { send, messages, answerTo } = connect(1_000)
    send('x'.repeat(5_000), call('ping', {}, 1))
    await answerTo(1)
    expect(at(messages()[0], 'error', 'data', 'problem')).toBe('a message must have at most 1000 bytes')
  })
})
