/** The server against clients that mean it no good, over sockets of their own. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
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

/** A body as the service has it read. */
async function wholeOf(body: IncomingBody, pieces = new Pieces()): Promise<Buffer> {
  await body.read({
    push: chunk => pieces.add(chunk),
    get held() {
      return pieces.length
    },
  })
  return Buffer.concat([pieces.bytes()].flat())
}

const statuses = { 'body too large': 413, 'memory exhausted': 503 }
/** In the words of this test alone. */
const renderError = (error: unknown): HttpResponse =>
  error instanceof HttpError
    ? { status: statuses[error.fault.kind], headers: [['Retry-After', '1']], body: error.fault.kind }
    : { status: 500, headers: [], body: String(error) }

async function serve(handle: Handler, limits: Partial<HttpService> = {}): Promise<Server> {
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
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return server
}

/** A client that keeps its side open whatever the server does. */
async function dial(server: Server): Promise<{ socket: Socket; said: () => string }> {
  const { port } = server.address() as AddressInfo // it listens on a port
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  let text = ''
  socket.on('data', chunk => {
    text += chunk.toString('latin1')
  })
  socket.on('error', () => {})
  onTestFinished(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return { socket, said: () => text }
}

const connections = (server: Server): Promise<number> =>
  new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  )
const chunked = 'POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
const post = (length: number) => `POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`

describe('the server', () => {
  test.each([
    ['no HTTP', 'NONSENSE\r\n\r\n', '400'],
    ['a head that is too long', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}`, '431'],
    ['two lengths', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', '400'],
    ['a length and chunks', `${post(5).slice(0, -2)}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, '400'],
    ['a line that ends in the middle', 'GET / HTTP/1.1\r\nHost: x\r\nX: a\rY: b\r\n\r\n', '400'],
  ])('refuses %s, and keeps no socket of whoever does not hang up', async (_, text, status) => {
    const server = await serve(async () => answered())
    const { socket, said } = await dial(server)
    socket.write(text)
    await until(() => said().startsWith(`HTTP/1.1 ${status} `))
    await until(async () => (await connections(server)) === 0)
  })

  test('lets go of a socket whose request has taken too long', async () => {
    const server = await serve(async () => answered())
    const taken = once(server, 'connection')
    const { socket, said } = await dial(server)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n')
    // What Node says once its own time for a head is up.
    const error = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
    server.emit('clientError', error, (await taken)[0])
    await until(() => said().startsWith('HTTP/1.1 408 '))
    await until(async () => (await connections(server)) === 0)
  })

  test.each([
    ['Content-Length', '2'],
    ['Transfer-Encoding', 'chunked'],
    ['Connection', 'upgrade'],
    ['Trailer', 'x'],
    ['Upgrade', 'websocket'],
    ['keep-alive', 'timeout=9999'],
  ])('says itself where an answer ends, whatever a function has set as %s', async (name, value) => {
    const server = await serve(async () => answered([[name, value]]))
    const { socket, said } = await dial(server)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => said().endsWith('done'))
    expect(said().match(/^content-length: .*/gim)).toEqual(['Content-Length: 4'])
    expect(said()).not.toContain(`${name}: ${value}`)
  })

  test('holds no more bodies than it may, and serves what is small meanwhile', async () => {
    const bodies: Pieces[] = []
    const handle: Handler = async (_, body) => {
      const pieces = new Pieces()
      bodies.push(pieces)
      return answered([], String((await wholeOf(body, pieces)).length))
    }
    const server = await serve(handle, { maximumHeldBytes: 4 * megabyte })
    const first = await dial(server)
    first.socket.write(post(3 * megabyte))
    first.socket.write(Buffer.alloc(3 * megabyte - 1))
    // The first is held once it has been read as far as it goes.
    await until(() => bodies[0]?.length === 3 * megabyte - 1)
    const second = await dial(server)
    second.socket.write(post(2 * megabyte))
    second.socket.write(Buffer.alloc(2 * megabyte))
    await until(() => second.said() !== '')
    expect(second.said()).toMatch(/^HTTP\/1.1 503 /)
    expect(second.said()).toMatch(/^Retry-After: 1$/im)
    expect(second.said()).toMatch(/^Connection: close$/im)
    second.socket.destroy()
    const small = await dial(server)
    small.socket.write(`${post(3)}abc`)
    await until(() => small.said().endsWith('3'))
    first.socket.write('x')
    await until(() => first.said().endsWith(String(3 * megabyte)))
    const third = await dial(server)
    third.socket.write(post(3 * megabyte))
    third.socket.write(Buffer.alloc(3 * megabyte))
    await until(() => third.said().endsWith(String(3 * megabyte)))
  })

  test('holds a body that has no end no longer than a while, where another needs the room', async () => {
    let now = 0
    vi.spyOn(performance, 'now').mockImplementation(() => now)
    onTestFinished(() => void vi.restoreAllMocks())
    const bodies: Pieces[] = []
    const handle: Handler = async (_, body) => {
      const pieces = new Pieces()
      bodies.push(pieces)
      return answered([], String((await wholeOf(body, pieces)).length))
    }
    const server = await serve(handle, { maximumHeldBytes: 4 * megabyte })
    const send = async (bytes: number, isWhole: boolean) => {
      const client = await dial(server)
      client.socket.write(post(bytes))
      client.socket.write(Buffer.alloc(bytes - (isWhole ? 0 : 1)))
      return client
    }
    const [slow, younger] = [await send(3 * megabyte, false), await send(megabyte / 2, false)]
    await until(() => bodies.reduce((sum, { length }) => sum + length, 0) === 3.5 * megabyte - 2)
    const early = await send(2 * megabyte, true)
    await until(() => early.said() !== '')
    expect(early.said()).toMatch(/^HTTP\/1.1 503 /)
    now = 10_000
    const late = await send(2 * megabyte, true)
    await until(() => late.said().endsWith(String(2 * megabyte)))
    expect(slow.said()).toMatch(/^HTTP\/1.1 503 /)
    // Nobody needs what the other one holds.
    younger.socket.write('x')
    await until(() => younger.said().endsWith(String(megabyte / 2)))
  })

  test('has so many connections and no more, and those that are not answered make room, the oldest first', async () => {
    let finish = () => {}
    const finished = new Promise<void>(resolve => {
      finish = resolve
    })
    let isAsked = false
    const handle: Handler = async (_, body) => {
      await wholeOf(body)
      isAsked = true
      await finished
      return answered()
    }
    const server = await serve(handle, { maximumConnections: 4 })
    const waiting = await dial(server)
    waiting.socket.write(`${post(3)}abc`)
    await until(() => isAsked)
    const idle: { socket: Socket }[] = []
    for (const begun of ['GET / HTTP/1.1\r\nX: ', post(60_000), '']) {
      const client = await dial(server)
      client.socket.write(begun)
      idle.push(client)
      // So that the server sees them in this order.
      await until(async () => (await connections(server)) === idle.length + 1)
    }
    const ended = () => idle.map(({ socket }) => socket.readableEnded)
    expect(ended()).toEqual([false, false, false])
    const next = await dial(server)
    next.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => ended()[0] === true)
    expect(await connections(server)).toBe(4)
    finish()
    await until(() => waiting.said().endsWith('done') && next.said().endsWith('done'))
    expect(ended()).toEqual([true, false, false])
  })

  test('takes nothing of a body that nobody reads, and goes on serving the connection', async () => {
    const server = await serve(
      async ({ headers }, body) =>
        headers.authorization === undefined
          ? answered([], 'refused')
          : answered([], String((await wholeOf(body)).length)),
      { maximumHeldBytes: megabyte },
    )
    const strangers = await Promise.all(Array.from({ length: 4 }, () => dial(server)))
    for (const { socket, said } of strangers) {
      socket.write(post(3 * megabyte))
      socket.write(Buffer.alloc(megabyte))
      await until(() => said().endsWith('refused'))
    }
    const known = await dial(server)
    known.socket.write(post(2 * megabyte).replace('Host', 'Authorization: x\r\nHost'))
    known.socket.write(Buffer.alloc(2 * megabyte - 1))
    // Held as the only one: it needs more than all may hold.
    known.socket.write('x')
    await until(() => known.said().endsWith(String(2 * megabyte)))
    const [stranger] = strangers
    stranger?.socket.write(Buffer.alloc(2 * megabyte))
    stranger?.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => stranger?.said().match(/refused/g)?.length === 2)
  })

  test('closes the connection of a client that sends more than is discarded after it has been answered', async () => {
    const server = await serve(async () => answered([], 'refused'), { maximumDiscardedBytes: megabyte })
    const { socket, said } = await dial(server)
    socket.write(chunked)
    await until(() => said().endsWith('refused'))
    const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536), Buffer.from('\r\n')])
    await until(async () => {
      socket.write(chunk)
      return socket.destroyed || (await connections(server)) === 0
    })
  })

  test('holds a body that comes byte by byte in not much more than its length', async () => {
    const server = await serve(async (_, body) => answered([], String((await wholeOf(body)).length)))
    const { socket, said } = await dial(server)
    const before = process.memoryUsage().rss
    socket.write(chunked)
    const some = 20_000
    for (let sent = 0; sent < megabyte / 2; sent += some) {
      if (!socket.write('1\r\nx\r\n'.repeat(some))) await once(socket, 'drain')
    }
    expect(said()).toBe('')
    socket.write('0\r\n\r\n')
    await until(() => said().endsWith(`\r\n\r\n${some * Math.ceil(megabyte / 2 / some)}`))
    // One Buffer for each byte would take some 200 MiB.
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * megabyte)
  })

  test('refuses a body that is too large in the words of its service, and ends the connection', async () => {
    const server = await serve(async (_, body) => answered([], await wholeOf(body)), { maximumBodyBytes: 100 })
    const { socket, said } = await dial(server)
    socket.write(post(101))
    await until(() => said().endsWith('body too large'))
    expect(said()).toMatch(/^HTTP\/1.1 413 /)
    expect(said()).toMatch(/^Connection: close$/im)
    expect(said()).toMatch(/^Server: test\/1$/im)
  })

  test.each([
    ['is too large', '/read', '413'],
    ['is not read', '/unread', '401'],
  ])('a body that %s is discarded until its client has the answer, however it sends', async (_, path, status) => {
    const handle: Handler = async (request, body) => {
      if (request.path === '/unread') return { status: 401, headers: [], body: 'no token' }
      return answered([], await wholeOf(body))
    }
    const server = await serve(handle, { maximumBodyBytes: 100_000 })
    const bytes = Buffer.alloc(1_000_000)
    for (const framing of ['Content-Length: 32000000', 'Transfer-Encoding: chunked']) {
      const { socket, said } = await dial(server)
      const failed: unknown[] = []
      socket.on('error', error => failed.push(error))
      socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${framing}\r\n\r\n`)
      // As clients do that read nothing before all is sent.
      socket.pause()
      for (let part = 0; part < 32; part++) {
        const piece = framing.startsWith('T')
          ? Buffer.concat([Buffer.from('F4240\r\n'), bytes, Buffer.from('\r\n')])
          : bytes
        await new Promise(resolve => socket.write(piece, resolve))
      }
      if (framing.startsWith('T')) socket.write('0\r\n\r\n')
      socket.resume()
      await until(() => said().startsWith(`HTTP/1.1 ${status} `))
      await until(async () => (await connections(server)) === 0)
      expect(failed).toEqual([])
    }
  })

  test('answers what its service throws in the words of the service, and goes on serving the connection', async () => {
    const server = await serve(async ({ path }) => {
      if (path === '/broken') throw new Error('no idea')
      return answered()
    })
    const { socket, said } = await dial(server)
    socket.write('GET /broken HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => said().endsWith('Error: no idea'))
    expect(said()).toMatch(/^HTTP\/1.1 500 /)
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => said().endsWith('done'))
  })

  test('keeps the bytes of a body in order, however they come', async () => {
    const server = await serve(async (_, body) => answered([], await wholeOf(body)))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 3_000 })), async parts => {
        const { socket, said } = await dial(server)
        socket.write(chunked)
        for (const part of parts) socket.write(`${part.length.toString(16)}\r\n${part}\r\n`, 'latin1')
        socket.write('0\r\n\r\n')
        const body = parts.join('')
        await until(() => said().includes('\r\n\r\n') && said().endsWith(body))
        expect(said().slice(said().indexOf('\r\n\r\n') + 4)).toBe(body)
        socket.destroy()
      }),
      { numRuns: 30 },
    )
  })

  test('answers one request of a connection after the other', async () => {
    const began: string[] = []
    const first = Promise.withResolvers<void>()
    const server = await serve(async ({ path }) => {
      began.push(path)
      if (path === '/1') await first.promise
      return answered([], path)
    })
    const { socket, said } = await dial(server)
    socket.write([1, 2, 3].map(path => `GET /${path} HTTP/1.1\r\nHost: x\r\n\r\n`).join(''))
    const other = await dial(server)
    other.socket.write('GET /other HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => other.said().endsWith('/other'))
    expect(began).toEqual(['/1', '/other'])
    first.resolve()
    await until(() => said().endsWith('/3'))
    expect(began).toEqual(['/1', '/other', '/2', '/3'])
    expect(said().match(/^\/\d/gm)).toEqual(['/1', '/2', '/3'])
  })

  test('hangs up on whoever asks on and on without waiting, and begins nothing more for them', async () => {
    let began = 0
    const aborted: boolean[] = []
    const server = await serve(async (_, __, signal) => {
      began++
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      aborted.push(signal.aborted)
      return answered()
    })
    const { socket } = await dial(server)
    const ask = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    socket.write(ask.repeat(maximumWaiting + 1))
    await until(() => began === 1)
    expect(await connections(server)).toBe(1)
    socket.write(ask)
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
  ])('takes the target %s as RFC 9112 section 3.2 has it', async (target, path, query) => {
    const server = await serve(async head => answered([], `${head.path} ${head.query}.`))
    const { socket, said } = await dial(server)
    socket.write(`OPTIONS ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await until(() => said().endsWith('.'))
    expect(said()).toContain(`\r\n\r\n${path} ${query}.`)
  })

  test('lets a connection go with its answer once it is to end', async () => {
    const first = Promise.withResolvers<HttpResponse>()
    const server = await serve(() => first.promise)
    const { socket, said } = await dial(server)
    const asked = once(server, 'request')
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await asked
    const ended = new Promise(resolve => server.close(resolve))
    first.resolve(answered())
    await until(() => said().endsWith('done'))
    expect(said()).toContain('\r\nConnection: close\r\n')
    await until(() => socket.readableEnded)
    socket.end()
    await ended
  })

  test('trusts no connection on which HTTP/1.0 has sent chunks (RFC 9112 section 6.1)', async () => {
    const server = await serve(async (_, body) => answered([], String((await wholeOf(body)).length)))
    const { socket, said } = await dial(server)
    const head = 'POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n'
    socket.write(`${head}1\r\nx\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n`)
    await until(() => socket.readableEnded)
    expect(said().match(/^HTTP/gm)).toHaveLength(1)
  })

  test('tells whoever reads a body that the client is gone', async () => {
    const told: unknown[] = []
    const server = await serve(async (_, body, signal) => {
      await wholeOf(body).catch((error: unknown) => told.push(error, signal.aborted))
      return answered()
    })
    const { socket } = await dial(server)
    socket.write(`${post(100)}some`)
    await until(async () => (await connections(server)) === 1)
    socket.destroy()
    await until(() => told.length === 2)
    expect(told).toEqual([new Error('the client is gone'), true])
  })

  test('waits for nobody who fetches an answer at less than 10 kB a second', async () => {
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
    // Once nobody listens for that any more, it would flow again.
    slow.socket.pause()
    await until(() => quick.said().length > bytes)
    // The quick one is done when nobody waits for it any more.
    await until(() => vi.getTimerCount() === 1)
    vi.advanceTimersByTime(60_000 + bytes / 10 - 1)
    expect(await connections(server)).toBe(2)
    vi.advanceTimersByTime(1)
    await until(async () => (await connections(server)) === 1)
  })

  test('makes no more large answers than it can hold for those who do not fetch them', async () => {
    const server = await serve(async () => answered([], Buffer.alloc(30 * megabyte)), {
      maximumHeldBytes: 50 * megabyte,
    })
    const [slow, next] = [await dial(server), await dial(server)]
    slow.socket.pause()
    const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
    slow.socket.write(get)
    await once(slow.socket, 'readable')
    // Once nobody listens for that any more, it would flow again.
    slow.socket.pause()
    next.socket.write(get)
    await until(() => next.said().startsWith('HTTP/1.1 503 '))
    slow.socket.destroy()
    await until(async () => {
      const again = await dial(server)
      again.socket.write(get)
      await until(() => again.said() !== '')
      const isServed = again.said().startsWith('HTTP/1.1 200 ')
      again.socket.destroy()
      return isServed
    })
  })
})
