/**
 * Ids and bytes of messages to the tool server over HTTP, to the tool server over stdio, and to the bridge. All three
 * must accept or refuse a message by the same rule.
 */
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestBridge, type TestBridge } from '../../mcp-bridge/testing/bridge.ts'
import { sendRequest, until } from '../../testing/client.ts'
import { fixtureCore } from '../testing/fixture-core.ts'
import { type Fixture, sealingKey, startFixture } from '../testing/fixture-server.ts'
import { createTransports } from './index.ts'
import { serveStdio } from './stdio.ts'

let fixture: Fixture
let bridge: TestBridge
beforeAll(async () => {
  ;[fixture, bridge] = await Promise.all([startFixture(), startTestBridge()])
})
afterAll(() => Promise.all([fixture?.stop(), bridge?.stop()]))

const version = '2026-07-28'
const modernMeta = `"io.modelcontextprotocol/protocolVersion":"${version}","io.modelcontextprotocol/clientCapabilities":{}`

type ReceivedError = { readonly id?: unknown; readonly code?: number; readonly text: string }

async function postTo(port: number, path: string, body: string | Buffer): Promise<ReceivedError> {
  const headers = {
    'Content-Type': 'application/json',
    'MCP-Protocol-Version': version,
    'Mcp-Method': 'tools/list',
    Accept: 'application/json',
  }
  const { text } = await sendRequest(port, path, { method: 'POST', headers, body })
  const { id, error } = JSON.parse(text)
  return { id, code: error?.code, text }
}

async function overStdio(line: string | Buffer): Promise<ReceivedError> {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const transports = createTransports({
    core: fixtureCore({}),
    logger: { error() {}, warn() {} },
    sealingKey,
    taskDelayMs: 20,
  })
  const ended = serveStdio({ transports, input, output, maximumLineBytes: 100_000, graceMs: 100 })
  let text = ''
  output.on('data', chunk => {
    text += chunk
  })
  input.write(line)
  input.write('\n')
  await until(() => text.includes('\n'))
  input.end()
  await ended
  transports.modern.close()
  const { id, error } = JSON.parse(text)
  return { id: id ?? undefined, code: error?.code, text }
}

const transports: [string, (body: string | Buffer) => Promise<ReceivedError>][] = [
  ['the server over HTTP', body => postTo(fixture.port, '/mcp/v1', body)],
  ['the server over stdio', overStdio],
  ['the bridge', body => postTo(bridge.port, '/mcp', body)],
]
const list = (id: string, meta = '') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/list","params":{"_meta":{${modernMeta}${meta}}}}`

describe.each(transports)('%s', (_, send) => {
  test.each(['9007199254740991', '-9007199254740991', '0', '"9007199254740993"', '"\\ud800"', '""'])(
    'returns the id %s unchanged',
    async id => {
      const answer = await send(list(id))
      expect([answer.text.includes(`"id":${id}`), answer.code]).toEqual([true, undefined])
    },
  )

  test.each([
    '9007199254740992',
    '9007199254740993',
    '-9007199254740993',
    '1e400',
    '1.5',
    '1.0',
    '1e2',
    '-0',
    `"${'x'.repeat(1_025)}"`,
  ])('refuses the id %s, and reports which ids are valid', async id => {
    const answer = await send(list(id))
    expect([answer.id, answer.code]).toEqual([undefined, -32600])
    expect(answer.text).toContain('an integer from -9007199254740991 to 9007199254740991')
  })

  test('refuses a progress token that could not be returned unchanged', async () => {
    const answer = await send(list('7', ',"progressToken":9007199254740993'))
    expect([answer.id, answer.code]).toEqual([7, -32602])
    expect(answer.text).toContain('progressToken')
  })

  test.each([
    ['a Latin-1 byte', Buffer.from('caf\xe9', 'latin1')],
    ['a truncated UTF-8 sequence', Buffer.from([0xe2, 0x82])],
    ['an encoded surrogate', Buffer.from([0xed, 0xa0, 0x80])],
    ['an overlong encoding', Buffer.from([0xc0, 0xaf])],
  ])('refuses %s', async (_case, bytes) => {
    const [head = '', tail = ''] = list('1', ',"x":"|"').split('|')
    const answer = await send(Buffer.concat([Buffer.from(head), bytes, Buffer.from(tail)]))
    expect([answer.id, answer.code]).toEqual([undefined, -32700])
    expect(answer.text).toContain('not valid UTF-8')
  })

  test.each([
    ['an empty method', '{"jsonrpc":"2.0","id":7,"method":""}'],
    ['a method of 201 characters', `{"jsonrpc":"2.0","id":7,"method":"${'x'.repeat(201)}"}`],
    ['a method that is a number', '{"jsonrpc":"2.0","id":7,"method":1}'],
    ['a response with a result and an error', '{"jsonrpc":"2.0","id":7,"result":{},"error":{}}'],
    ['a message that is neither a request nor a response', '{"jsonrpc":"2.0","id":7}'],
    ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":7,"method":"ping"}'],
    [
      'objects nested 65 deep',
      `{"jsonrpc":"2.0","id":7,"method":"ping","params":${'{"a":'.repeat(65)}1${'}'.repeat(66)}`,
    ],
    ['the field name __proto__', '{"jsonrpc":"2.0","id":7,"method":"ping","params":{"__proto__":{}}}'],
  ])('refuses %s, and returns the id of the message', async (_case, body) => {
    const answer = await send(body)
    expect([answer.id, answer.code]).toEqual([7, -32600])
  })

  test('refuses the id null', async () => {
    const answer = await send(list('null'))
    expect([answer.id, answer.code]).toEqual([undefined, -32600])
  })

  test('accepts a fraction in a field `id` that is not the id of the message', async () => {
    const answer = await send(list('3', ',"x":{"id":1.50}'))
    expect([answer.id, answer.code]).toEqual([3, undefined])
  })
})

test('the bridge refuses invalid UTF-8 of an older client with the status and error of invalid JSON', async () => {
  const body = Buffer.concat([
    Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'),
    Buffer.from([0xff]),
    Buffer.from('"}'),
  ])
  const answer = await sendRequest(bridge.port, '/mcp', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body,
  })
  expect([answer.status, JSON.parse(answer.text)]).toEqual([
    400,
    { error: 'Parse error (-32700): the message is not valid UTF-8' },
  ])
})
