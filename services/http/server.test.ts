/** Tests the server over raw sockets, also with malicious clients. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { until } from '../testing/client.ts'
import { HttpError } from './errors.ts'
import type { Handler, HttpResponse, IncomingBody } from './message.ts'
import { Pieces } from './pieces.ts'
import { maximumWaiting } from './request-queue.ts'
import { type HttpService, makeServer } from './server.ts'

const megabyte = 1_048_576
const answered = (headers: HttpResponse['headers'] = [], body: Buffer | string = 'done'): HttpResponse => ({
  status: 200,
  headers,
  body,
})

/** Reads a body in the same way as a service. */
async function bytesOf(body: IncomingBody, pieces = new Pieces()): Promise<Buffer> {
  await body.read({
    push: chunk => pieces.add(chunk),
    get bufferedBytes() {
      return pieces.length
    },
  })
  return Buffer.concat([pieces.bytes()].flat())
}

const statuses = { 'body too large': 413, 'memory exhausted': 503 }
/** Error texts that only this test uses. */
const renderError = (error: unknown): HttpResponse =>
  error instanceof HttpError
    ? { status: statuses[error.fault.kind], headers: [['Retry-After', '1']], body: error.fault.kind }
    : { status: 500, headers: [], body: String(error) }

async function serve(handle: Handler, limits: Partial<HttpService> = {}, path?: string): Promise<Server> {
  const cors = { origins: undefined, methods: 'GET, POST', exposedHeaders: 'Date' }
  const server = makeServer({
    product: 'test/1',
    maximumBodyBytes: 10 * megabyte,
    maximumHeaderBytes: 16_384,
    rules: () => ({ cors, traceHeader: undefined }),
    handle,
    renderError,
    ...limits,
  })
  const at = path === undefined ? { port: 0, host: '127.0.0.1' } : { path }
  await new Promise<void>(resolve => server.listen(at, resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return server
}

/** A client that never closes its side of the connection. */
async function dial(server: Server): Promise<{ socket: Socket; received: () => string }> {
  const address = server.address() as AddressInfo | string // It listens.
  const at = typeof address === 'string' ? { path: address } : { port: address.port, host: '127.0.0.1' }
  const socket = connect({ ...at, allowHalfOpen: true })
  let text = ''
  socket.on('data', chunk => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  onTestFinished(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return { socket, received: () => text }
}

const connections = (server: Server): Promise<number> =>
  new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  )
const chunked = 'POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
const post = (length: number) => `POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`

describe('the server', () => {
  test.each([
    ['bytes that are not HTTP', 'NONSENSE\r\n\r\n', '400'],
    ['a head that is too long', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}`, '431'],
    [
      'two Content-Length headers',
      'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      '400',
    ],
    [
      'Content-Length and chunked encoding',
      `${post(5).slice(0, -2)}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      '400',
    ],
    ['a header with a bare CR', 'GET / HTTP/1.1\r\nHost: x\r\nX: a\rY: b\r\n\r\n', '400'],
  ])('refuses %s, and closes the socket if the client does not close it', async (_, text, status) => {
    const server = await serve(async () => answered())
    const { socket, received } = await dial(server)
    socket.write(text)
    await until(() => received().startsWith(`HTTP/1.1 ${status} `))
    await until(async () => (await connections(server)) === 0)
  })

  test('closes the socket of a request that takes too long', async () => {
    const server = await serve(async () => answered())
    const taken = once(server, 'connection')
    const { socket, received } = await dial(server)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n')
    // Node reports this error after its own timeout for the head.
    const error = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
    server.emit('clientError', error, (await taken)[0])
    await until(() => received().startsWith('HTTP/1.1 408 '))
    await until(async () => (await connections(server)) === 0)
  })

  test.each([
    ['Content-Length', '2'],
    ['Transfer-Encoding', 'chunked'],
    ['Connection', 'upgrade'],
    ['Trailer', 'x'],
    ['Upgrade', 'websocket'],
    ['keep-alive', 'timeout=9999'],
  ])('sets message framing itself, even if a handler sets %s', async (name, value) => {
    const server = await serve(async () => answered([[name, value]]))
    const { socket, received } = await dial(server)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => received().endsWith('done'))
    expect(received().match(/^content-length: .*/gim)).toEqual(['Content-Length: 4'])
    expect(received()).not.toContain(`${name}: ${value}`)
  })

  test('keeps bodies within the memory limit, and still answers requests with small bodies', async () => {
    const bodies: Pieces[] = []
    const handle: Handler = async (_, body) => {
      const pieces = new Pieces()
      bodies.push(pieces)
      return answered([], String((await bytesOf(body, pieces)).length))
    }
    const server = await serve(handle, { maximumBufferedBytes: 4 * megabyte })
    const first = await dial(server)
    first.socket.write(post(3 * megabyte))
    first.socket.write(Buffer.alloc(3 * megabyte - 1))
    // Wait until the server has read all bytes of the first body except the last, and has reserved memory for them.
    await until(() => bodies[0]?.length === 3 * megabyte - 1)
    const second = await dial(server)
    second.socket.write(post(2 * megabyte))
    second.socket.write(Buffer.alloc(2 * megabyte))
    await until(() => second.received() !== '')
    expect(second.received()).toMatch(/^HTTP\/1.1 503 /)
    expect(second.received()).toMatch(/^Retry-After: 1$/im)
    expect(second.received()).toMatch(/^Connection: close$/im)
    second.socket.destroy()
    const small = await dial(server)
    small.socket.write(`${post(3)}abc`)
    await until(() => small.received().endsWith('3'))
    first.socket.write('x')
    await until(() => first.received().endsWith(String(3 * megabyte)))
    const third = await dial(server)
    third.socket.write(post(3 * megabyte))
    third.socket.write(Buffer.alloc(3 * megabyte))
    await until(() => third.received().endsWith(String(3 * megabyte)))
  })

  test('cancels a slow upload if another request needs the memory', async () => {
    let now = 0
    vi.spyOn(performance, 'now').mockImplementation(() => now)
    onTestFinished(() => void vi.restoreAllMocks())
    const bodies: Pieces[] = []
    const handle: Handler = async (_, body) => {
      const pieces = new Pieces()
      bodies.push(pieces)
      return answered([], String((await bytesOf(body, pieces)).length))
    }
    const server = await serve(handle, { maximumBufferedBytes: 4 * megabyte })
    const send = async (bytes: number, isComplete: boolean) => {
      const client = await dial(server)
      client.socket.write(post(bytes))
      client.socket.write(Buffer.alloc(bytes - (isComplete ? 0 : 1)))
      return client
    }
    const [slow, younger] = [await send(3 * megabyte, false), await send(megabyte / 2, false)]
    await until(() => bodies.reduce((sum, { length }) => sum + length, 0) === 3.5 * megabyte - 2)
    const early = await send(2 * megabyte, true)
    await until(() => early.received() !== '')
    expect(early.received()).toMatch(/^HTTP\/1.1 503 /)
    now = 10_000
    const late = await send(2 * megabyte, true)
    await until(() => late.received().endsWith(String(2 * megabyte)))
    expect(slow.received()).toMatch(/^HTTP\/1.1 503 /)
    // No other request needs the memory of this upload.
    younger.socket.write('x')
    await until(() => younger.received().endsWith(String(megabyte / 2)))
  })

  test.each([
    ['a TCP port', () => undefined],
    ['a Unix socket', () => join(tmpdir(), `espalier-${randomUUID()}`)],
  ])(
    'limits connections to %s, and closes the connection that has been unused for the longest time',
    async (_, path) => {
      let finish = () => {}
      const finished = new Promise<void>(resolve => {
        finish = resolve
      })
      let isCalled = false
      const handle: Handler = async (_, body) => {
        await bytesOf(body)
        isCalled = true
        await finished
        return answered()
      }
      const server = await serve(handle, { maximumConnections: 4 }, path())
      const waiting = await dial(server)
      waiting.socket.write(`${post(3)}abc`)
      await until(() => isCalled)
      const idle: { socket: Socket }[] = []
      for (const begun of ['GET / HTTP/1.1\r\nX: ', post(60_000), '']) {
        const client = await dial(server)
        client.socket.write(begun)
        idle.push(client)
        // The test waits, so that the server accepts the connections in this order.
        await until(async () => (await connections(server)) === idle.length + 1)
      }
      const ended = () => idle.map(({ socket }) => socket.readableEnded)
      expect(ended()).toEqual([false, false, false])
      const next = await dial(server)
      next.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
      await until(() => ended()[0] === true)
      expect(await connections(server)).toBe(4)
      finish()
      await until(() => waiting.received().endsWith('done') && next.received().endsWith('done'))
      expect(ended()).toEqual([true, false, false])
    },
  )

  test('reserves no memory for a body that the handler ignores, and keeps the connection', async () => {
    const server = await serve(
      async ({ headers }, body) =>
        headers.authorization === undefined
          ? answered([], 'refused')
          : answered([], String((await bytesOf(body)).length)),
      { maximumBufferedBytes: megabyte },
    )
    const unauthenticated = await Promise.all(Array.from({ length: 4 }, () => dial(server)))
    for (const { socket, received } of unauthenticated) {
      socket.write(post(3 * megabyte))
      socket.write(Buffer.alloc(megabyte))
      await until(() => received().endsWith('refused'))
    }
    const known = await dial(server)
    known.socket.write(post(2 * megabyte).replace('Host', 'Authorization: x\r\nHost'))
    known.socket.write(Buffer.alloc(2 * megabyte - 1))
    // This body is larger than the memory limit. So the server accepts it only if no other body is counted.
    known.socket.write('x')
    await until(() => known.received().endsWith(String(2 * megabyte)))
    const [client] = unauthenticated
    client?.socket.write(Buffer.alloc(2 * megabyte))
    client?.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => client?.received().match(/refused/g)?.length === 2)
  })

  test('closes the connection of a client that sends more than the discard limit after the response', async () => {
    const server = await serve(async () => answered([], 'refused'), { maximumDiscardedBytes: megabyte })
    const { socket, received } = await dial(server)
    socket.write(chunked)
    await until(() => received().endsWith('refused'))
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536), Buffer.from('\r\n')])
    await until(async () => {
      socket.write(chunk)
      return socket.destroyed || (await connections(server)) === 0
    })
  })

  test('needs less than 100 MiB if a body of 0.5 MiB arrives byte by byte', async () => {
    const server = await serve(async (_, body) => answered([], String((await bytesOf(body)).length)))
    const { socket, received } = await dial(server)
    const before = process.memoryUsage().rss
    socket.write(chunked)
    const some = 20_000
    for (let sent = 0; sent < megabyte / 2; sent += some) {
      if (!socket.write('1\r\nx\r\n'.repeat(some))) await once(socket, 'drain')
    }
    expect(received()).toBe('')
    socket.write('0\r\n\r\n')
    await until(() => received().endsWith(`\r\n\r\n${some * Math.ceil(megabyte / 2 / some)}`))
    // One Buffer for each byte would need about 200 MiB.
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * megabyte)
  })

  test("uses the service's error format to refuse a body that is too large, and closes the connection", async () => {
    const server = await serve(async (_, body) => answered([], await bytesOf(body)), { maximumBodyBytes: 100 })
    const { socket, received } = await dial(server)
    socket.write(post(101))
    await until(() => received().endsWith('body too large'))
    expect(received()).toMatch(/^HTTP\/1.1 413 /)
    expect(received()).toMatch(/^Connection: close$/im)
    expect(received()).toMatch(/^Server: test\/1$/im)
  })

  test.each([
    ['that is too large', '/read', '413'],
    ['that the handler does not read', '/unread', '401'],
  ])(
    'reads and discards a body %s, so that the client gets the response (Content-Length and chunked)',
    async (_, path, status) => {
      const handle: Handler = async (request, body) => {
        if (request.path === '/unread') return { status: 401, headers: [], body: 'no token' }
        return answered([], await bytesOf(body))
      }
      const server = await serve(handle, { maximumBodyBytes: 100_000 })
      const bytes = Buffer.alloc(1_000_000)
      for (const framing of ['Content-Length: 32000000', 'Transfer-Encoding: chunked']) {
        const { socket, received } = await dial(server)
        const failed: unknown[] = []
        socket.on('error', error => failed.push(error))
        socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${framing}\r\n\r\n`)
        // Most clients read the response only after they have sent the whole body.
        socket.pause()
        for (let part = 0; part < 32; part++) {
          const piece = framing.startsWith('T')
            ? Buffer.concat([Buffer.from('F4240\r\n'), bytes, Buffer.from('\r\n')])
            : bytes
          await new Promise(resolve => socket.write(piece, resolve))
        }
        if (framing.startsWith('T')) socket.write('0\r\n\r\n')
        socket.resume()
        await until(() => received().startsWith(`HTTP/1.1 ${status} `))
        await until(async () => (await connections(server)) === 0)
        expect(failed).toEqual([])
      }
    },
  )

  test("renders an exception of the service in the service's error format, and keeps the connection", async () => {
    const server = await serve(async ({ path }) => {
      if (path === '/broken') throw new Error('no idea')
      return answered()
    })
    const { socket, received } = await dial(server)
    socket.write('GET /broken HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => received().endsWith('Error: no idea'))
    expect(received()).toMatch(/^HTTP\/1.1 500 /)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => received().endsWith('done'))
  })

  test('keeps the bytes of a body in order, however they are split', async () => {
    const server = await serve(async (_, body) => answered([], await bytesOf(body)))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 3_000 })), async parts => {
        const { socket, received } = await dial(server)
        socket.write(chunked)
        for (const part of parts) socket.write(`${part.length.toString(16)}\r\n${part}\r\n`, 'latin1')
        socket.write('0\r\n\r\n')
        const body = parts.join('')
        await until(() => received().includes('\r\n\r\n') && received().endsWith(body))
        expect(received().slice(received().indexOf('\r\n\r\n') + 4)).toBe(body)
        socket.destroy()
      }),
      { numRuns: 30 },
    )
  })

  test('answers the requests of a connection one after another', async () => {
    const began: string[] = []
    const first = Promise.withResolvers<void>()
    const server = await serve(async ({ path }) => {
      began.push(path)
      if (path === '/1') await first.promise
      return answered([], path)
    })
    const { socket, received } = await dial(server)
    socket.write([1, 2, 3].map(path => `GET /${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
    const other = await dial(server)
    other.socket.write('GET /other HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => other.received().endsWith('/other'))
    expect(began).toEqual(['/1', '/other'])
    first.resolve()
    await until(() => received().endsWith('/3'))
    expect(began).toEqual(['/1', '/other', '/2', '/3'])
    expect(received().match(/^\/\d/gm)).toEqual(['/1', '/2', '/3'])
  })

  test('disconnects a client that pipelines too many requests, and starts none of the waiting requests', async () => {
    let began = 0
    const aborted: boolean[] = []
    const server = await serve(async (_, __, signal) => {
      began++
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      aborted.push(signal.aborted)
      return answered()
    })
    const { socket } = await dial(server)
    const requestText = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    socket.write(requestText.repeat(maximumWaiting + 1))
    await until(() => began === 1)
    expect(await connections(server)).toBe(1)
    socket.write(requestText)
    await until(async () => (await connections(server)) === 0)
    await until(() => aborted.length > 0)
    expect([began, aborted]).toEqual([1, [true]])
  })

  test.each([
    ['http://x/notes?id=eq.1', '/notes', 'id=eq.1'],
    ['HTTPS://x:3000?select=id', '/', 'select=id'],
    ['http://x', '/', ''],
    ['/http://x/notes', '/http://x/notes', ''],
    ['*', '*', ''],
  ])('reads the request target %s as RFC 9112 section 3.2 specifies', async (target, path, query) => {
    const server = await serve(async head => answered([], `${head.path} ${head.query}.`))
    const { socket, received } = await dial(server)
    socket.write(`OPTIONS ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await until(() => received().endsWith('.'))
    expect(received()).toContain(`\r\n\r\n${path} ${query}.`)
  })

  test('closes a connection after its response while the server stops', async () => {
    const first = Promise.withResolvers<HttpResponse>()
    const server = await serve(() => first.promise)
    const { socket, received } = await dial(server)
    const arrived = once(server, 'request')
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await arrived
    const ended = new Promise(resolve => server.close(resolve))
    first.resolve(answered())
    await until(() => received().endsWith('done'))
    expect(received()).toContain('\r\nConnection: close\r\n')
    await until(() => socket.readableEnded)
    socket.end()
    await ended
  })

  test('closes a connection on which an HTTP/1.0 client sent chunks (RFC 9112 section 6.1)', async () => {
    const server = await serve(async (_, body) => answered([], String((await bytesOf(body)).length)))
    const { socket, received } = await dial(server)
    const head = 'POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n'
    socket.write(`${head}1\r\nx\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n`)
    await until(() => socket.readableEnded)
    expect(received().match(/^HTTP/gm)).toHaveLength(1)
  })

  test('aborts the reader of a body when the client disconnects', async () => {
    const results: unknown[] = []
    const server = await serve(async (_, body, signal) => {
      await bytesOf(body).catch((error: unknown) => results.push(error, signal.aborted))
      return answered()
    })
    const { socket } = await dial(server)
    socket.write(`${post(100)}some`)
    await until(async () => (await connections(server)) === 1)
    socket.destroy()
    await until(() => results.length === 2)
    expect(results).toEqual([new Error('the client has disconnected'), true])
  })

  test('disconnects a client that reads a response at less than 10 kB/s', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => {
      vi.useRealTimers()
    })
    const bytes = 30 * megabyte
    const server = await serve(async () => answered([], Buffer.alloc(bytes)))
    const [slow, quick] = [await dial(server), await dial(server)]
    slow.socket.pause()
    slow.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    quick.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(slow.socket, 'readable')
    // `once` has removed the listener of `readable`. Without this pause, the socket would read again.
    slow.socket.pause()
    await until(() => quick.received().length > bytes)
    // Only the timer of the slow client's response remains.
    await until(() => vi.getTimerCount() === 1)
    vi.advanceTimersByTime(60_000 + bytes / 10 - 1)
    expect(await connections(server)).toBe(2)
    vi.advanceTimersByTime(1)
    await until(async () => (await connections(server)) === 1)
  })

  test('refuses a large response while the unread response of another client uses the memory', async () => {
    const server = await serve(async () => answered([], Buffer.alloc(30 * megabyte)), {
      maximumBufferedBytes: 50 * megabyte,
    })
    const [slow, next] = [await dial(server), await dial(server)]
    slow.socket.pause()
    const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    slow.socket.write(get)
    await once(slow.socket, 'readable')
    // `once` has removed the listener of `readable`. Without this pause, the socket would read again.
    slow.socket.pause()
    next.socket.write(get)
    await until(() => next.received().startsWith('HTTP/1.1 503 '))
    slow.socket.destroy()
    await until(async () => {
      const again = await dial(server)
      again.socket.write(get)
      await until(() => again.received() !== '')
      const isServed = again.received().startsWith('HTTP/1.1 200 ')
      again.socket.destroy()
      return isServed
    })
  })
})
