/** Malicious clients. The listener answers or closes their connections, and keeps serving other clients. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { openHttps, shopHost, type TestHttps } from '../testing/https.ts'
import { ownLoopback, received, until } from '../testing/sockets.ts'

let it: TestHttps
let urls: string[]
const open = async (limits: Parameters<typeof openHttps>[0] = {}) => {
  it = await openHttps(limits)
  urls = []
  await it.serve('rest 80', (message, response) => {
    urls.push(message.url ?? '')
    message.resume().on('end', () => response.end(message.url))
  })
}
beforeEach(() => open())
afterEach(async () => {
  expect((await it.send('/rest/alive')).status).toBe(200)
  await it.close()
})
const reopen = async (limits: Parameters<typeof openHttps>[0]) => {
  await it.close()
  await open(limits)
}
const dial = async (from?: string): Promise<Socket> => {
  const socket = connect({ host: it.host, port: it.port, ...(from && { localAddress: from }) }).on('error', () => {})
  onTestFinished(() => void socket.destroy())
  await Promise.race([once(socket, 'connect'), once(socket, 'close')])
  return socket
}
/** Returns the response to these bytes, until the connection is closed. */
const sendRaw = async (text: string | Buffer): Promise<string> => {
  const socket = await it.raw()
  socket.write(text)
  return String(await received(socket))
}
const head = (first: string, ...lines: string[]) => `${[first, `Host: ${shopHost}`, ...lines].join('\r\n')}\r\n\r\n`

test('bytes that are not TLS, and bytes in TLS that are not HTTP, close the connection', async () => {
  for (const bytes of [randomBytes(300), Buffer.from(head('GET / HTTP/1.1')), Buffer.of(22, 3, 1, 255, 255)]) {
    const socket = await dial()
    socket.end(bytes)
    await received(socket)
  }
  for (let turn = 0; turn < 50; turn++) {
    const socket = await it.raw()
    socket.write(randomBytes(200))
    socket.end('\r\n\r\n')
    expect(String(await received(socket))).toMatch(/^(HTTP\/1.1 4\d\d [\s\S]*)?$/)
  }
  const session = await it.http2()
  session.destroy()
  expect(urls).toEqual([])
})

test.each([
  [
    'Content-Length and Transfer-Encoding',
    head('POST /rest/ HTTP/1.1', 'Content-Length: 5', 'Transfer-Encoding: chunked'),
    '0\r\n\r\nGET /x',
  ],
  [
    'an unknown transfer coding with Content-Length',
    head('POST /rest/ HTTP/1.1', 'Transfer-Encoding: xchunked', 'Content-Length: 3'),
    'abc',
  ],
  [
    'two transfer codings',
    head('POST /rest/ HTTP/1.1', 'Transfer-Encoding: identity', 'Transfer-Encoding: chunked'),
    '0\r\n\r\n',
  ],
  ['chunked encoding in HTTP/1.0', head('POST /rest/ HTTP/1.0', 'Transfer-Encoding: chunked'), '0\r\n\r\n'],
  ['two lengths in Content-Length', head('POST /rest/ HTTP/1.1', 'Content-Length: 3, 4'), 'abcd'],
  ['a signed Content-Length', head('POST /rest/ HTTP/1.1', 'Content-Length: +3'), 'abc'],
  ['a folded header line', head('GET /rest/ HTTP/1.1', 'X-A: 1', ' Transfer-Encoding: chunked'), ''],
  ['a space before a colon', head('GET /rest/ HTTP/1.1', 'Content-Length : 3'), 'abc'],
  ['a bare line feed', `GET /rest/ HTTP/1.1\nHost: ${shopHost}\n\n`, ''],
  ['an absolute target', head(`GET https://${shopHost}/rest/ HTTP/1.1`, 'Connection: close'), ''],
  ['a second Host header', head('GET /rest/ HTTP/1.1', 'Host: other', 'Connection: close'), ''],
  ['no Host header', 'GET /rest/ HTTP/1.1\r\n\r\n', ''],
])('%s: refused before it is forwarded', async (_, text, body) => {
  expect(await sendRaw(`${text}${body}`)).toMatch(/^HTTP\/1.1 4\d\d /)
  expect(urls).toEqual([])
})

test('invalid chunks abort the request at the service too', async () => {
  const response = await sendRaw(`${head('POST /rest/ HTTP/1.1', 'Transfer-Encoding: chunked')}5\r\nhello\r\nZZ\r\n`)
  expect(response).not.toContain(' 200 ')
  await until('no request is in progress', () => it.server.requests() === 0)
})

test('large headers get 431 over HTTP/1.1, and reset the stream of HTTP/2', async () => {
  const large = 'x'.repeat(40_000)
  expect(await sendRaw(head('GET /rest/ HTTP/1.1', `X-Large: ${large}`))).toMatch(/^HTTP\/1.1 431 [\s\S]*\{"code":431/)
  const session = await it.http2()
  const stream = session.request({ ':authority': shopHost, ':path': '/rest/', 'x-large': large })
  stream.on('error', () => {})
  await once(stream, 'close')
  expect(urls).toEqual([])
})

test('requests that only one of HTTP/2 and HTTP/1.1 can express are refused', async () => {
  const session = await it.http2()
  const status = async (headers: Record<string, string>): Promise<unknown> => {
    const stream = session.request({ ':authority': shopHost, ':path': '/rest/', ...headers })
    stream.on('error', () => {})
    return new Promise(resolve => {
      stream.on('response', answered => resolve(answered[':status']))
      stream.on('close', () => resolve(undefined))
    })
  }
  expect([400, undefined]).toContain(await status({ ':method': 'A B' }))
  expect([400, 200, undefined]).toContain(await status({ 'x-odd': 'a\u00e9\u4e2d' }))
  await it.serve('mcp 81', (_, response) => response.writeHead(700).end())
  expect(await status({ ':path': '/mcp' })).toBe(502)
  expect((await it.send('/mcp')).status).toBe(502)
})

test('pipelined requests are answered in order, one at a time; above the limit the connection is closed', async () => {
  const many = (count: number, last: string) =>
    Array.from({ length: count }, (_, index) =>
      head(`GET /rest/${index} HTTP/1.1`, index === count - 1 ? last : 'X: 1'),
    )
  const responses = await sendRaw(many(50, 'Connection: close').join(''))
  expect(responses.split('HTTP/1.1 200 ').length - 1).toBe(50)
  expect(urls).toEqual(Array.from({ length: 50 }, (_, index) => `/${index}`))
  urls = []
  await sendRaw(many(2_000, 'X: 1').join(''))
  await until('no request is in progress', () => it.server.requests() === 0)
  expect(urls.length).toBeLessThan(10)
})

test('a client that cancels streams as fast as it opens them is disconnected', async () => {
  await reopen({ sweepMs: 1_000, abandonedRequests: 100 })
  const session = await it.http2()
  let isOver = false
  session.on('close', () => {
    isOver = true
  })
  session.on('goaway', () => {
    isOver = true
  })
  let reached = 0
  await it.serve('mcp 81', () => {
    reached++
  })
  for (let turn = 0; turn < 500 && !isOver; turn++) {
    const before = reached
    const streams = Array.from({ length: 20 }, () => session.request({ ':authority': shopHost, ':path': '/mcp' }))
    for (const stream of streams) stream.on('error', () => {})
    await until('the 20 streams reach the service, or the session ends', () => isOver || reached >= before + 20)
    for (const stream of streams) stream.close(8)
  }
  await until(`the session is closed; ${reached} requests reached the service`, () => isOver, 3_000)
  await until('no request is in progress', () => it.server.requests() === 0)
  expect(reached).toBeLessThan(400)
})

test('a client that is slow with its headers, before TLS or after it, is disconnected', async () => {
  await reopen({ firstRequestMs: 200 })
  const early = await dial()
  early.write(Buffer.of(22))
  const late = await it.raw()
  const drip = setInterval(() => late.write('X'), 20)
  await Promise.all([once(early.resume(), 'close'), once(late.resume(), 'close')])
  clearInterval(drip)
  await until('both connections are closed', () => it.server.connections() === 0)
})

test('a connection without a request is closed after a while, but not during a request', async () => {
  await reopen({ idleMs: 200 })
  await it.serve('mcp 81', (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  })
  const idle = await it.raw()
  idle.write(head('GET /rest/ HTTP/1.1'))
  const session = await it.http2()
  const events = session.request({ ':authority': shopHost, ':path': '/mcp' })
  await once(events, 'response')
  await once(idle.resume(), 'close')
  expect([events.closed, it.server.requests()]).toEqual([false, 1])
})

test('a body that arrives too slowly gets 408; a body that the service delays does not', async () => {
  await reopen({ bodyIntervalMs: 150, bodyIntervalBytes: 100, discardMs: 100 })
  expect(await sendRaw(`${head('POST /rest/ HTTP/1.1', 'Content-Length: 1000')}abc`)).toMatch(
    /^HTTP\/1.1 408 [\s\S]*"code":408/,
  )
  await it.serve('mcp 81', (message, response) => {
    setTimeout(() => message.resume().on('end', () => response.end('took it')), 600)
  })
  const body = 'x'.repeat(4 * 1024 * 1024)
  expect((await it.send('/mcp', { method: 'POST', body, close: true })).body).toBe('took it')
})

test('a client that does not read its response is disconnected', async () => {
  await reopen({ stalledMs: 200 })
  let isClosed = false
  await it.serve('mcp 81', (_, response) => {
    response.on('close', () => {
      isClosed = true
    })
    response.write(Buffer.alloc(32 * 1024 * 1024))
  })
  const socket = await it.raw()
  socket.pause()
  socket.write(head('GET /mcp HTTP/1.1'))
  await until('the response of the service is closed', () => isClosed)
})

test('silent connections use a limited part of the listener, and block no client', async () => {
  const count = process.env.ESPALIER_SOAK ? 10_000 : 1_500
  await reopen({ silentConnections: 300, connectionsPerAddress: 1_000 })
  const addresses = [ownLoopback(), ownLoopback(), ownLoopback()]
  for (let done = 0; done < count; done += 50)
    await Promise.all(Array.from({ length: 50 }, (_, index) => dial(addresses[index % 3])))
  expect(it.server.connections()).toBeLessThanOrEqual(301)
  expect((await it.send('/rest/x', { close: true })).status).toBe(200)
  expect((await it.http2()).closed).toBe(false)
})

test('an address at its limit loses its oldest connection without a request', async () => {
  await reopen({ connectionsPerAddress: 3 })
  const address = ownLoopback()
  const sockets = [await dial(address), await dial(address), await dial(address)]
  await until('the three connections are accepted', () => it.server.connections() === 3)
  const closed = once((sockets[0] as Socket).resume(), 'close')
  await dial(address)
  await closed
  expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, false, false])
})
