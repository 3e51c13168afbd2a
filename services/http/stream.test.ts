/** Streamed responses, over HTTP clients and raw sockets. */
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
  limits: { readonly stalledMs?: number; readonly maximumBufferedBytes?: number } = {},
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
  return { server, port: (server.address() as AddressInfo).port } // The server listens on a TCP port.
}

async function fetchFrom(port: number): Promise<IncomingMessage> {
  const sent = request({ host: '127.0.0.1', port })
  sent.on('error', () => {})
  sent.end()
  const [response] = await once(sent, 'response')
  return response
}

/** Reads a response to its end. */
async function lengthOf(response: IncomingMessage): Promise<number> {
  let length = 0
  response.on('data', (piece: Buffer) => {
    length += piece.length
  })
  response.resume()
  await once(response, 'end')
  return length
}

test('written bytes arrive before the response ends, and the response ends when the writer ends', async () => {
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

test('the head arrives before the first write', async () => {
  const { port } = await serve((_, signal) => new Promise(resolve => signal.addEventListener('abort', () => resolve())))
  const response = await fetchFrom(port)
  expect(response.statusCode).toBe(200)
  response.destroy()
})

test("a writer's signal is aborted when its client disconnects", async () => {
  let isAborted = false
  const { port } = await serve(async (_, signal) => {
    await new Promise(resolve => signal.addEventListener('abort', resolve))
    isAborted = true
  })
  const response = await fetchFrom(port)
  response.destroy()
  await until(() => isAborted)
})

test('a response whose writer fails is aborted, not ended', async () => {
  const { port } = await serve(async out => {
    out.write('half')
    throw new Error('no more')
  })
  const response = await fetchFrom(port)
  response.resume()
  const [error] = await once(response, 'error')
  expect(error.code).toBe('ECONNRESET')
})

/** A Unix socket has no reset, and HTTP/1.0 has no chunks. So a client could not detect an aborted stream. */
describe('a response to HTTP/1.0 over a Unix socket', () => {
  async function receive(stream: (out: AnswerStream, signal: AbortSignal) => Promise<void>): Promise<string> {
    const { server } = await serve(stream, { maximumBufferedBytes: 10_000_000 })
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

  test('has a Content-Length', async () => {
    const text = await receive(async out => {
      out.write('one\n')
      await out.drained()
      out.write('two\n')
    })
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*Content-Length: 8\r\n[\s\S]*\r\n\r\none\ntwo\n$/)
  })

  test('is an error if its writer fails or if the memory budget is exhausted', async () => {
    const failed = await receive(async out => {
      out.write('half')
      throw new Error('no more')
    })
    expect(failed).toMatch(/^HTTP\/1.1 500 [\s\S]*\r\n\r\nError: no more$/)
    const large = await receive(async (out, signal) => {
      while (!signal.aborted) {
        out.write('x'.repeat(65_536))
        await new Promise(setImmediate)
      }
    })
    expect(large).toMatch(/^HTTP\/1.1 500 [\s\S]*\r\n\r\nHttpError: memory exhausted$/)
  })
})

test('an HTTP/1.0 client that is disconnected can detect the truncation', async () => {
  let isAborted = false
  const { port } = await serve(async (out, signal) => {
    while (!signal.aborted) {
      out.write('x'.repeat(65_536))
      await new Promise(setImmediate)
    }
    isAborted = true
  })
  const socket = connect(port, '127.0.0.1').pause()
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.0\r\n\r\n')
  await until(() => isAborted)
  socket.resume()
  const [error] = await once(socket, 'error')
  expect(error.code).toBe('ECONNRESET')
})

test('`allow` refuses more than the memory limit, even to the only writer', async () => {
  let isAllowed: boolean[] = []
  const { port } = await serve(
    async (out, signal) => {
      isAllowed = [out.allow(10_000_000), out.allow(10_000_001)]
      await new Promise(resolve => signal.addEventListener('abort', resolve))
    },
    { maximumBufferedBytes: 10_000_000 },
  )
  const response = await fetchFrom(port)
  await until(() => isAllowed.length > 0)
  response.destroy()
  expect(isAllowed).toEqual([true, false])
})

test('a writer can call `allow` for each small piece; reserved bytes of earlier calls are reused', async () => {
  const chunk = 'x'.repeat(16_384)
  const chunks = 600
  let allowed = 0
  const { port } = await serve(
    async out => {
      for (; allowed < chunks && out.allow(262_144); allowed++) out.write(chunk)
    },
    { maximumBufferedBytes: 12_000_000 },
  )
  const response = await fetchFrom(port)
  response.pause()
  await until(() => allowed === chunks)
  expect(await lengthOf(response)).toBe(chunk.length * chunks)
})

test('a slow client slows down a writer that waits, and receives everything', async () => {
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

test('a client that reads nothing is disconnected if the writer does not wait', async () => {
  let isAborted = false
  const { port } = await serve(async (out, signal) => {
    while (!signal.aborted) {
      out.write('x'.repeat(65_536))
      await new Promise(setImmediate)
    }
    isAborted = true
  })
  const socket = connect(port, '127.0.0.1').pause()
  socket.on('error', () => {})
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await until(() => isAborted)
})

test('a client that reads nothing is disconnected, even if the writer sends little; a client that reads stays connected', async () => {
  let written = 0
  let isAborted = 0
  const { port } = await serve(
    async (out, signal) => {
      // More bytes than the socket buffers can hold, but fewer than the limit of waiting bytes in all streams.
      for (; written < 16_000_000 && !signal.aborted; written += 100_000) {
        if (!out.write('x'.repeat(100_000)))
          await Promise.race([out.drained(), new Promise(resolve => setTimeout(resolve, 20))])
      }
      while (!signal.aborted) {
        out.write(': keepalive\n\n')
        await new Promise(resolve => setTimeout(resolve, 20))
      }
      isAborted += 1
    },
    { stalledMs: 200 },
  )
  const receive = (socket: Socket) => {
    socket.on('error', () => {})
    onTestFinished(() => void socket.destroy())
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  }
  const [reading, stalled] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1').pause()]
  let read = 0
  reading.on('data', piece => {
    read += piece.length
  })
  receive(reading)
  await until(() => read > 0)
  written = 0
  receive(stalled)
  await until(() => isAborted === 1)
  const before = read
  await until(() => read > before)
})
