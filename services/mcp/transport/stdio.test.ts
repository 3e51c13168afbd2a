/** Standard input and output: the fixture as a program, and in this process where many connections share the pipes. */
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

/** The transport over pipes of this process. */
function connect(maximumLineBytes = 100_000) {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const stopped: string[] = []
  const core = fixtureCore({ stopped: name => stopped.push(name) })
  const logger = { error: () => {}, warn: () => {} }
  const transports = createTransports({ core, logger, sealingKey, taskPatienceMs: 20 })
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
  const told = () => parsed(text)
  const send = (...messages: (object | string)[]) => {
    for (const one of messages) input.write(`${typeof one === 'string' ? one : JSON.stringify(one)}\n`)
  }
  const answerTo = async (id: unknown): Promise<JsonObject> => {
    await until(() => told().some(one => one.id === id && one.method === undefined))
    return told().find(one => one.id === id && one.method === undefined) ?? {}
  }
  return { send, told, answerTo, core, stopped, input, ended }
}

const initialize = (capabilities: JsonObject = {}, id: string | number = 'init') =>
  call('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 't', version: '1' } }, id)
const cancelled = (requestId: string | number, params: JsonObject = {}) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, ...params },
})

describe('the program', () => {
  test('answers line by line, says nothing else, and ends with its input', async () => {
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

  test('ends what is under way when its input ends', async () => {
    const { send, stopped, input, ended } = connect()
    send(initialize(), call('tools/call', { name: 'test_wait' }, 1))
    await new Promise(resolve => setTimeout(resolve, 30))
    input.end()
    await ended
    await until(() => stopped.includes('test_wait'))
  })
})

describe('an older client', () => {
  test('is asked for what a call needs, in as many rounds as it takes', async () => {
    const { send, told, answerTo } = connect()
    send(initialize({ elicitation: {} }), call('tools/call', { name: 'test_input_required_result_multi_round' }, 1))
    for (const [round, content] of [{ name: 'Ann' }, { color: 'red' }].entries()) {
      const asked = () => told().filter(({ method }) => method === 'elicitation/create')
      await until(() => asked().length > round)
      send({ jsonrpc: '2.0', id: asked()[round]?.id, result: { action: 'accept', content } })
    }
    expect(at(await answerTo(1), 'result', 'content', 0, 'text')).toBe('Ann likes red')
  })

  test('is not asked for what it has not declared', async () => {
    const { send, told, answerTo } = connect()
    send(initialize({ sampling: {} }), call('tools/call', { name: 'test_input_required_result_elicitation' }, 1))
    expect(at(await answerTo(1), 'error', 'code')).toBe(-32602)
    expect(told().filter(({ method }) => method !== undefined)).toEqual([])
  })

  test('that fails instead of answering fails the call, and no more', async () => {
    const { send, told, answerTo } = connect()
    send(initialize({ roots: {} }), call('tools/call', { name: 'test_input_required_result_list_roots' }, 1))
    await until(() => told().some(({ method }) => method === 'roots/list'))
    const id = told().find(({ method }) => method === 'roots/list')?.id
    const failure = { jsonrpc: '2.0', id, error: { code: -1, message: 'no roots here' } }
    send(failure, failure)
    expect(at(await answerTo(1), 'error', 'data', 'problem')).toBe('the client has failed: no roots here')
    send(call('ping', {}, 2))
    expect(at(await answerTo(2), 'result')).toEqual({})
  })

  test('hears no more of what it has cancelled', async () => {
    const { send, told, stopped, answerTo } = connect()
    send(initialize({ elicitation: {} }), call('tools/call', { name: 'test_wait' }, 1))
    send(call('tools/call', { name: 'test_elicitation', arguments: { message: 'x' } }, 2))
    await until(() => told().some(({ method }) => method === 'elicitation/create'))
    send(cancelled(1), cancelled(2), cancelled(99))
    await until(() => stopped.includes('test_wait'))
    await until(() => told().some(({ method }) => method === 'notifications/cancelled'))
    send(call('ping', {}, 3))
    await answerTo(3)
    expect(told().filter(({ id, method }) => method === undefined && (id === 1 || id === 2))).toEqual([])
  })

  test('is told of logs from the level it sets, and of what it subscribes to', async () => {
    const { send, told, answerTo, core } = connect()
    send(
      initialize(),
      call('logging/setLevel', { level: 'error' }, 1),
      call('tools/call', { name: 'test_tool_with_logging' }, 2),
    )
    await answerTo(2)
    expect(told().some(({ method }) => method === 'notifications/message')).toBe(false)
    send(call('resources/subscribe', { uri: 'test://a' }, 3), call('resources/subscribe', { uri: 'test://b' }, 4))
    send(call('resources/unsubscribe', { uri: 'test://b' }, 5))
    await answerTo(5)
    for (const uri of ['test://a', 'test://b', 'test://c']) core.announce({ kind: 'resource', uri })
    core.announce({ kind: 'tools' })
    await until(() => told().some(({ method }) => method === 'notifications/tools/list_changed'))
    const updated = told().filter(({ method }) => method === 'notifications/resources/updated')
    expect(updated.map(({ params }) => params)).toEqual([{ uri: 'test://a' }])
  })

  test('does not use an id twice at once', async () => {
    const { send, told } = connect()
    send(initialize(), call('tools/call', { name: 'test_wait' }, 1), call('ping', {}, 1))
    await until(() =>
      told().some(({ error }) => at(error, 'data', 'problem') === 'a request with this id is under way'),
    )
  })
})

describe('a client of the newest revision', () => {
  const request = (method: string, params: JsonObject = {}, id: string | number = 1) =>
    modernCall(method, params, { id }).body

  test('is answered in its own way, and initialize is refused then', async () => {
    const { send, answerTo } = connect()
    send(request('server/discover', {}, 0), request('tools/list', {}, 1), initialize())
    expect(at(await answerTo(0), 'result', 'supportedVersions')).toEqual(['2026-07-28'])
    expect(at(await answerTo(1), 'result', 'resultType')).toBe('complete')
    expect(at(await answerTo('init'), 'error')).toMatchObject({ code: -32022, data: { requested: '2025-11-25' } })
    send(call('tools/list', {}, 2))
    expect(at(await answerTo(2), 'error', 'code')).toBe(-32602)
  })

  test('may go on with initialize after it has looked', async () => {
    const { send, answerTo } = connect()
    send(request('server/discover', {}, 0), initialize(), call('ping', {}, 2))
    expect(at(await answerTo('init'), 'result', 'protocolVersion')).toBe('2025-11-25')
    expect(at(await answerTo(2), 'result')).toEqual({})
  })

  test('listens until it cancels, and hears no answer then', async () => {
    const { send, told, core, answerTo } = connect()
    send(request('subscriptions/listen', { notifications: { toolsListChanged: true } }, 'L'))
    await until(() => told().length === 1)
    core.announce({ kind: 'tools' })
    core.announce({ kind: 'prompts' })
    await until(() => told().length === 2)
    send(cancelled('L'), request('tools/list', {}, 2))
    await answerTo(2)
    core.announce({ kind: 'tools' })
    expect(told().map(({ method, id }) => method ?? id)).toEqual([
      'notifications/subscriptions/acknowledged',
      'notifications/tools/list_changed',
      2,
    ])
  })
})

describe('clients of a bridge', () => {
  const of = (connection: string, message: JsonObject, caller?: JsonObject): JsonObject => {
    const params = (message.params ?? {}) as JsonObject // as the tests write it
    const meta = { ...(params._meta as JsonObject), 'espalier.dev/connection': connection } // an object where there is one
    return {
      ...message,
      params: { ...params, _meta: { ...meta, ...(caller === undefined ? {} : { 'espalier.dev/caller': caller }) } },
    }
  }
  const reader = { kind: 'client', principal: 'client:a', username: 'ann', scopes: ['mcp:read'], session: 's' }
  const markOf = (message: JsonObject) => at(message, 'params', '_meta', 'espalier.dev/connection')

  test('speak each in its own era, and are asked and told each for itself', async () => {
    const { send, told, answerTo, core } = connect()
    send(initialize({}, 'own'))
    expect(at(await answerTo('own'), 'result', 'capabilities', 'experimental')).toEqual({ 'espalier.dev/bridge': {} })
    send(of('one', initialize({ elicitation: {} }, 1)), of('two', initialize({}, 2)))
    send(of('three', modernCall('tools/list', {}, { id: 3 }).body))
    expect(at(await answerTo(3), 'result', 'resultType')).toBe('complete')
    send(of('one', call('tools/call', { name: 'test_elicitation', arguments: { message: 'x' } }, 4)))
    send(of('two', call('resources/subscribe', { uri: 'test://a' }, 5)))
    await until(() => told().some(({ method }) => method === 'elicitation/create'))
    const asked = told().find(({ method }) => method === 'elicitation/create') ?? {}
    expect(markOf(asked)).toBe('one')
    send({ jsonrpc: '2.0', id: asked.id, result: { action: 'decline' } })
    expect(at(await answerTo(4), 'result', 'content', 0, 'text')).toContain('action=decline')
    await answerTo(5)
    core.announce({ kind: 'resource', uri: 'test://a' })
    core.announce({ kind: 'tools' })
    await until(() => told().filter(({ method }) => method === 'notifications/tools/list_changed').length === 3)
    const changes = told().filter(({ method }) => method?.toString().endsWith('list_changed'))
    expect(changes.map(markOf)).toEqual([undefined, 'one', 'two'])
    expect(
      told()
        .filter(({ method }) => method === 'notifications/resources/updated')
        .map(markOf),
    ).toEqual(['two'])
  })

  test('end when the bridge says so', async () => {
    const { send, told, stopped, core, answerTo } = connect()
    send(of('one', initialize({}, 1)), of('one', call('tools/call', { name: 'test_wait' }, 2)))
    await answerTo(1)
    send(of('one', { jsonrpc: '2.0', method: 'notifications/espalier.dev/closed' }))
    await until(() => stopped.includes('test_wait'))
    // What comes late is no beginning.
    send(of('one', cancelled(2)), call('ping', {}, 3))
    await answerTo(3)
    const before = told().filter(message => markOf(message) !== undefined).length
    core.announce({ kind: 'tools' })
    await until(() => told().some(({ method }) => method === 'notifications/tools/list_changed'))
    expect(told().filter(message => markOf(message) !== undefined).length).toBe(before)
  })

  test('are who the bridge says, and may do no more than that', async () => {
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
  test('that are too long are refused, and the next is answered', async () => {
    const { send, told, answerTo } = connect(1_000)
    send('x'.repeat(5_000), call('ping', {}, 1))
    await answerTo(1)
    expect(at(told()[0], 'error', 'data', 'problem')).toBe('a message must have at most 1000 bytes')
  })
})
