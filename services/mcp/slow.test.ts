/**
 * Hundreds of clients start requests and stop: within the headers or within the body, with and without a token. The
 * server must still answer other clients as fast as usual.
 */
import { connect, type Socket } from 'node:net'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestBridge, type TestBridge } from '../mcp-bridge/testing/bridge.ts'
import { sendRequest, until } from '../testing/client.ts'
import { readMcpSettings } from './configuration/index.ts'
import { addToken } from './credentials/administration.ts'
import { makeFolder } from './credentials/testing/files.ts'
import { type McpService, startMcp } from './index.ts'
import { call } from './testing/rpc.ts'

const bridgeToken = 'a-token-of-the-bridge-0123456789'
const folder = makeFolder()
let service: McpService
let bridge: TestBridge
let token: string

beforeAll(async () => {
  const { tokenFile, userFile } = folder
  token = (await addToken(tokenFile, { note: 'a test', lifetimeMs: undefined, database: undefined }, Date.now())).token
  const flags = new Map<string, string | true>([
    ['http', true],
    ['addr', '127.0.0.1:0'],
    ['token-file', tokenFile],
    ['user-file', userFile],
  ])
  const settings = readMcpSettings({
    file: undefined,
    environment: { ESPALIER_DB_HOST: '127.0.0.1' },
    flags,
    readFile: () => Buffer.of(),
  })
  if (settings.http === undefined) throw new Error('the settings have no HTTP server')
  service = await startMcp({ settings, http: settings.http, logger: pino({ level: 'silent' }) })
  bridge = await startTestBridge({ server: { auth: { type: 'bearer', bearer: { valid_tokens: [bridgeToken] } } } })
})
afterAll(async () => {
  await Promise.all([service?.stop(), bridge?.stop()])
  folder.remove()
})

const ofEachKind = 150
/** The limit for the median of ten responses. A systematic delay affects every response, a busy machine only some. */
const usualMs = 1_000

async function dial(port: number, text: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  await new Promise<void>(resolve => socket.once('connect', resolve))
  socket.write(text)
  return socket
}

test.each([
  ['the tool server', () => ({ port: service.address.port, path: '/mcp/v1', own: token })],
  ['the bridge', () => ({ port: bridge.port, path: '/mcp', own: bridgeToken })],
])('%s', async (_, where) => {
  const { port, path, own } = where()
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json', Authorization: `Bearer ${own}` }
  const begun = `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n`
  const kinds = [
    begun,
    `${begun}Content-Length: 60000\r\n\r\n{"jsonrpc"`,
    `${begun}Authorization: ${headers.Authorization}\r\nContent-Length: 5000000\r\n\r\n{"jsonrpc"`,
    `${begun}Authorization: ${headers.Authorization}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`,
  ]
  const sockets = await Promise.all(kinds.flatMap(text => Array.from({ length: ofEachKind }, () => dial(port, text))))
  // Sends one byte at an interval, as slow clients do.
  const dripping = setInterval(() => {
    for (const [at, socket] of sockets.entries()) if (at % kinds.length < 3) socket.write(' ')
  }, 50)
  try {
    const body = JSON.stringify(call('tools/list'))
    const took: number[] = []
    for (let round = 0; round < 10; round++) {
      const began = performance.now()
      const answer = await sendRequest(port, path, { method: 'POST', headers, body })
      expect([answer.status, answer.text.includes('"tools"')]).toEqual([200, true])
      took.push(performance.now() - began)
    }
    expect(took.sort((one, other) => one - other)[4]).toBeLessThan(usualMs)
  } finally {
    clearInterval(dripping)
    for (const socket of sockets) socket.destroy()
  }
  await until(() => sockets.every(({ closed }) => closed))
  expect((await sendRequest(port, '/health')).status).toBe(200)
})
