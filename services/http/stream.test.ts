/** Answers that come bit by bit, over sockets of their own. */
import { once } from 'node:events'
import { type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../testing/client.ts'
import type { AnswerStream, Handler } from './message.ts'
import { makeServer } from './server.ts'

async function serve(
  stream: (out: AnswerStream, signal: AbortSignal) => Promise<void>,
  limits: { readonly stalledMs?: number } = {},
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
  let length = 0
  response.on('data', (piece: Buffer) => {
    length += piece.length
  })
  response.resume()
  await once(response, 'end')
  expect(length).toBe(chunk.length * chunks)
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
