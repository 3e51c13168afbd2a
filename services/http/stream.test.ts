/** Answers that come bit by bit, over sockets of their own. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/client.ts'
import type { AnswerStream, Handler } from './message.ts'
import { makeServer } from './server.ts'

async function serve(
  stream: (out: AnswerStream, signal: AbortSignal) => Promise<void>,
  limits: { readonly stalledMs?: number; readonly maximumHeldBytes?: number } = {},
): Promise<{ server: Server; port: number }> {
  const handle: Handler = async (_, __, signal) => ({
    status: 200,
    headers: [['Content-Type', 'text/event-stream']],
    body: undefined,
    stream: out => stream(out, signal),
  })
  const server = makeServer({
    product: 'test/1',
    maximumBodyBytes: 1_000,
    maximumHeaderBytes: 16_384,
    rules: () => ({ cors: { origins: [], methods: 'GET', exposedHeaders: '' }, traceHeader: undefined }),
    handle,
    renderError: error => ({ status: 500, headers: [], body: String(error) }),
    ...limits,
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { server, port: (server.address() as AddressInfo).port } // it listens on a port
}

async function fetchFrom(port: number): Promise<IncomingMessage> {
  const sent = request({ host: '127.0.0.1', port })
  sent.on('error', () => {})
  sent.end()
  const [response] = await once(sent, 'response')
  return response
}

/** Reads an answer to its end. */
async function lengthOf(response: IncomingMessage): Promise<number> {
  let length = 0
  response.on('data', (piece: Buffer) => {
    length += piece.length
  })
  response.resume()
  await once(response, 'end')
  return length
}

test('what is written arrives before the answer is over, and ends with its writer', async () => {
  let finish = () => {}
  const { port } = await serve(async out => {
    out.write('one\n')
    await new Promise<void>(resolve => {
      finish = resolve
    })
    out.write('two\n')
  })
  const response = await fetchFrom(port)
  let text = ''
  response.on('data', chunk => {
    text += chunk
  })
  await until(() => text === 'one\n')
  finish()
  await once(response, 'end')
  expect(text).toBe('one\ntwo\n')
  expect(response.headers['content-type']).toBe('text/event-stream')
})

test('the head arrives before anything is written', async () => {
  const { port } = await serve((_, signal) => new Promise(resolve => signal.addEventListener('abort', () => resolve())))
  const response = await fetchFrom(port)
  expect(response.statusCode).toBe(200)
  response.destroy()
})

test('a writer learns that its client is gone', async () => {
  let isGone = false
  const { port } = await serve(async (_, signal) => {
    await new Promise(resolve => signal.addEventListener('abort', resolve))
    isGone = true
  })
  const response = await fetchFrom(port)
  response.destroy()
  await until(() => isGone)
})

test('an answer whose writer fails is cut off, not ended', async () => {
  const { port } = await serve(async out => {
    out.write('half')
    throw new Error('no more')
  })
  const response = await fetchFrom(port)
  response.resume()
  const [error] = await once(response, 'error')
  expect(error.code).toBe('ECONNRESET')
})

/** Over a Unix socket nobody can reset a connection, and HTTP/1.0 has no chunks. */
describe('an answer to HTTP/1.0 over a Unix socket', () => {
  async function ask(stream: (out: AnswerStream, signal: AbortSignal) => Promise<void>): Promise<string> {
    const { server } = await serve(stream, { maximumHeldBytes: 10_000_000 })
    const directory = mkdtempSync(join(tmpdir(), 'espalier-stream-'))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    const path = join(directory, 'socket')
    const again = createServer(socket => server.emit('connection', socket)).listen(path)
    onTestFinished(() => void again.close())
    await once(again, 'listening')
    const socket = connect(path)
    socket.write('GET / HTTP/1.0\r\n\r\n')
    let text = ''
    for await (const chunk of socket) text += chunk
    return text
  }

  test('says how long it is', async () => {
    const text = await ask(async out => {
      out.write('one\n')
      await out.drained()
      out.write('two\n')
    })
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*Content-Length: 8\r\n[\s\S]*\r\n\r\none\ntwo\n$/)
  })

  test('is an error where its writer fails, or there is no room for it', async () => {
    const failed = await ask(async out => {
      out.write('half')
      throw new Error('no more')
    })
    expect(failed).toMatch(/^HTTP\/1.1 500 [\s\S]*\r\n\r\nError: no more$/)
    const large = await ask(async (out, signal) => {
      while (!signal.aborted) {
        out.write('x'.repeat(65_536))
        await new Promise(setImmediate)
      }
    })
    expect(large).toMatch(/^HTTP\/1.1 500 [\s\S]*\r\n\r\nHttpError: memory exhausted$/)
  })
})

test('a client of HTTP/1.0 that is hung up on sees that it has not all', async () => {
  let isGone = false
  const { port } = await serve(async (out, signal) => {
    while (!signal.aborted) {
      out.write('x'.repeat(65_536))
      await new Promise(setImmediate)
    }
    isGone = true
  })
  const socket = connect(port, '127.0.0.1').pause()
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.0\r\n\r\n')
  await until(() => isGone)
  socket.resume()
  const [error] = await once(socket, 'error')
  expect(error.code).toBe('ECONNRESET')
})

test('a writer is allowed no more than may be held, also where it is alone', async () => {
  let isAllowed: boolean[] = []
  const { port } = await serve(
    async (out, signal) => {
      isAllowed = [out.allow(10_000_000), out.allow(10_000_001)]
      await new Promise(resolve => signal.addEventListener('abort', resolve))
    },
    { maximumHeldBytes: 10_000_000 },
  )
  const response = await fetchFrom(port)
  await until(() => isAllowed.length > 0)
  response.destroy()
  expect(isAllowed).toEqual([true, false])
})

test('a writer of small pieces is allowed a step at each of them as long as what waits fits', async () => {
  const chunk = 'x'.repeat(16_384)
  const chunks = 600
  let allowed = 0
  const { port } = await serve(
    async out => {
      for (; allowed < chunks && out.allow(262_144); allowed++) out.write(chunk)
    },
    { maximumHeldBytes: 12_000_000 },
  )
  const response = await fetchFrom(port)
  response.pause()
  await until(() => allowed === chunks)
  expect(await lengthOf(response)).toBe(chunk.length * chunks)
})

test('a writer that waits is held back by a slow client, and gets everything through', async () => {
  const chunk = 'x'.repeat(65_536)
  const chunks = 200
  let written = 0
  const { port } = await serve(async out => {
    for (; written < chunks; written++) if (!out.write(chunk)) await out.drained()
  })
  const response = await fetchFrom(port)
  response.pause()
  await new Promise(resolve => setTimeout(resolve, 100))
  expect(written).toBeLessThan(chunks)
  expect(await lengthOf(response)).toBe(chunk.length * chunks)
})

test('a client that fetches nothing, of a writer that does not wait, is hung up on', async () => {
  let isGone = false
  const { port } = await serve(async (out, signal) => {
    while (!signal.aborted) {
      out.write('x'.repeat(65_536))
      await new Promise(setImmediate)
    }
    isGone = true
  })
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => isGone)
})

test('a client that has fetched nothing for a while is hung up on, however little is sent to it; one that reads is not', async () => {
  let written = 0
  let isGone = 0
  const { port } = await serve(
    async (out, signal) => {
      // More than the system holds for a client, and less than may wait for it.
      for (; written < 16_000_000 && !signal.aborted; written += 100_000) {
        if (!out.write('x'.repeat(100_000)))
          await Promise.race([out.drained(), new Promise(resolve => setTimeout(resolve, 20))])
      }
      while (!signal.aborted) {
        out.write(': keepalive\n\n')
        await new Promise(resolve => setTimeout(resolve, 20))
      }
      isGone += 1
    },
    { stalledMs: 200 },
  )
  const ask = (socket: Socket) => {
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  }
  const [reading, stalled] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1').pause()]
  let read = 0
  reading.on('data', piece => {
    read += piece.length
  })
  ask(reading)
  await until(() => read > 0)
  written = 0
  ask(stalled)
  await until(() => isGone === 1)
  const before = read
  await until(() => read > before)
})
