/** Sends bytes on a socket that are not a valid request, and checks every byte of the response. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createServer } from '../../server/node-http.ts'
import { until } from '../testing/client.ts'
import { createConnections } from './connections.ts'

/**
 * Responses of `/slow` start immediately and end when the test ends them. Responses of `/later` start when the test
 * starts them.
 */
let finish = new Set<() => void>()
let server: Server
let port: number

beforeAll(async () => {
  const connections = createConnections()
  server = createServer(
    { requestTimeout: 300, headersTimeout: 300, connectionsCheckingInterval: 50 },
    (request, response) => {
      if (request.url === '/slow') {
        response.writeHead(200, { 'content-length': 8 })
        response.write('slow')
        finish.add(() => response.end('done'))
      } else if (request.url === '/later') {
        finish.add(() => response.end('later'))
      } else if (request.url === '/refused') {
        response.writeHead(401, { 'content-length': 2 })
        response.end('no')
      } else request.resume().on('end', () => response.end(`${request.method} ${request.url}`))
    },
  )
  server.on('clientError', connections.answerClientError)
  connections.watch(server, path => (path === '/known' ? ['GET', 'HEAD'] : undefined))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // A listening TCP server has an address of this shape.
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
})
beforeEach(() => {
  finish = new Set()
})

type Exchange = { socket: Socket; text: () => string; ended: Promise<unknown> }
async function send(bytes: string | Uint8Array): Promise<Exchange> {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.on('data', chunk => {
    received += chunk
  })
  socket.on('error', () => {})
  const ended = once(socket, 'close')
  await once(socket, 'connect')
  socket.write(bytes)
  return { socket, text: () => received, ended }
}
const answersTo = async (bytes: string | Uint8Array): Promise<string> => {
  const { text, ended } = await send(bytes)
  await ended
  return text()
}

/** Splits a text into responses, each with its stated length. */
function parsed(text: string) {
  const answers: { status: number; headers: Record<string, string>; body: string }[] = []
  let rest = text
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n')
    const headers = Object.fromEntries(
      lines.map(line => [line.split(':', 1)[0]?.toLowerCase(), line.replace(/^[^:]*: /, '')]),
    )
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
    const length = Number(headers['content-length'])
    expect({ first, end: end > 0, length }).toEqual({
      first: expect.stringMatching(/^HTTP\/1\.1 \d{3} /),
      end: true,
      length: expect.any(Number),
    })
    const body = Buffer.from(rest.slice(end + 4))
      .subarray(0, length)
      .toString()
    answers.push({ status, headers, body })
    rest = rest.slice(end + 4 + body.length)
  }
  return answers
}

const refusal = (status: number, headers: object = {}) => ({
  status,
  headers: expect.objectContaining({
    'content-type': 'application/json; charset=utf-8',
    'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    connection: 'close',
    ...headers,
  }),
  body: expect.stringMatching(new RegExp(`^\\{"code":${status},"message":"[^"]+"\\}$`)),
})

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`

describe('an invalid request gets an HTTP response', () => {
  test.each([
    ['nonsense', 'nonsense\r\n\r\n', 400],
    ['another version', 'GET /known HTTP/3.0\r\n\r\n', 400],
    ['a header without a colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400],
    ['two lengths', get('/', 'Content-Length: 1\r\nContent-Length: 2\r\n'), 400],
    ['a length and chunks', get('/', 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'), 400],
    ['endless headers', get('/', `X: ${'x'.repeat(20_000)}\r\n`), 431],
    ['an endless path', `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`, 431],
    ['a request that never ends', 'GET / HTTP/1.1\r\nHost: x\r\n', 408],
    ['a body that never ends', get('/', 'Content-Length: 5\r\n'), 408],
    ['invalid chunks', `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    ['an expectation', get('/', 'Expect: magic\r\n'), 417],
    ['an unknown method on an unknown path', 'FOO /unknown HTTP/1.1\r\nHost: x\r\n\r\n', 404],
  ])('%s', async (_, bytes, status) => {
    expect(parsed(await answersTo(bytes))).toEqual([refusal(status)])
  })

  test('an unknown method on a served path causes a 405', async () => {
    const [answer] = parsed(await answersTo('FOO /known HTTP/1.1\r\nHost: x\r\n\r\n'))
    expect(answer).toEqual(refusal(405, { allow: 'GET, HEAD' }))
  })

  test('CONNECT causes a 405 as well', async () => {
    expect(parsed(await answersTo('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'))).toEqual([refusal(405)])
  })
})

describe('in order', () => {
  test('after the responses to earlier requests', async () => {
    const { text, ended } = await send(`${get('/slow')}${get('/later')}nonsense\r\n\r\n`)
    await until(() => finish.size === 2)
    await pause(50)
    expect(text()).toMatch(/slow$/)
    for (const end of finish) end()
    await ended
    const [slow, later, last, ...others] = parsed(text())
    expect([slow?.body, later?.body, last, others]).toEqual(['slowdone', 'later', refusal(400), []])
  })

  test('instead of the response to the aborted request', async () => {
    const { text, ended, socket } = await send(get('/later', 'Transfer-Encoding: chunked\r\n'))
    await until(() => finish.size === 1)
    socket.write('zz\r\n')
    await ended
    expect(parsed(text())).toEqual([refusal(400)])
  })

  test('never if that request was answered, or is being answered', async () => {
    const begun = await send(get('/slow', 'Transfer-Encoding: chunked\r\n'))
    await until(() => begun.text().endsWith('slow'))
    begun.socket.write('zz\r\n')
    await begun.ended
    expect(begun.text()).toMatch(/\r\n\r\nslow$/)

    const answered = await send(get('/refused', 'Transfer-Encoding: chunked\r\n'))
    await until(() => answered.text().endsWith('no'))
    answered.socket.write('zz\r\n')
    await answered.ended
    expect(parsed(answered.text())).toMatchObject([{ status: 401, body: 'no' }])
  })

  test('once, whatever data follows', async () => {
    const { text, ended, socket } = await send('nonsense\r\n\r\n')
    for (let n = 0; n < 20; n++) socket.write('nonsense\r\n\r\n')
    await ended
    expect(parsed(text())).toEqual([refusal(400)])
  })

  test('disconnects a client that does not disconnect', async () => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('data', () => {})
    socket.write('nonsense\r\n\r\n')
    await once(socket, 'end')
    await until(
      async () =>
        (await new Promise<number>((resolve, reject) =>
          server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
        )) === 0,
    )
    socket.destroy()
  })
})

test('answers any input with complete responses', async () => {
  const piece = fc.constantFrom(
    get('/one'),
    get('/two', 'Content-Length: 3\r\n'),
    get('/three', 'Transfer-Encoding: chunked\r\n'),
    get('/refused', 'Content-Length: 9\r\n'),
    get('/', 'Expect: magic\r\n'),
    get('/', 'Expect: 100-continue\r\n'),
    'abc',
    '3\r\nabc\r\n',
    '0\r\n\r\n',
    'zz\r\n',
    '\r\n',
    'FOO /known HTTP/1.1\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    '\u0000',
  )
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), async pieces => {
      const { socket, text, ended } = await send(pieces.join(''))
      await pause(10)
      socket.end()
      await ended
      for (const { status, headers, body } of parsed(text().replaceAll('HTTP/1.1 100 Continue\r\n\r\n', ''))) {
        if (status === 200 || status === 401) continue
        expect(headers['x-request-id']).toBeDefined()
        expect(JSON.parse(body)).toEqual({ code: status, message: expect.any(String) })
      }
    }),
    { numRuns: 60 },
  )
})
