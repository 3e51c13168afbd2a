/** Connections whose bytes are parsed in slices, with Node's own HTTP server. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { parseInSlices } from './slices.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Slicing starts after the head of each connection's first request. */
async function serve(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<Socket> {
  const server = createServer((request, response) => {
    process.nextTick(parseInSlices, request.socket)
    handle(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1') // The server listens on a TCP port.
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

const head = 'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n'
const tiny = (count: number) => '1\r\nx\r\n'.repeat(count)

test('the server parses fewer than 200 tiny chunks before it serves other connections', async () => {
  // Every slice takes longer than its target.
  let now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => (now += 3))
  let turn = 0
  const perTurn = new Map<number, number>()
  const begun = Promise.withResolvers<void>()
  const socket = await serve((request, response) => {
    begun.resolve()
    let length = 0
    request.on('data', (chunk: Buffer) => {
      if (perTurn.size === 0 || !perTurn.has(turn)) setImmediate(() => turn++)
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1)
      length += chunk.length
    })
    request.on('end', () => response.end(`${length} received`))
  })
  socket.write(head)
  await begun.promise
  socket.write(`${tiny(100_000)}0\r\n\r\n`)
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/100000 received/)
  // Each chunk has six bytes, and the smallest slice has one kilobyte.
  expect(Math.max(...perTurn.values())).toBeLessThan(200)
  expect(perTurn.size).toBeGreaterThan(500)
})

test("with slices, the server answers all requests of a connection, and detects the connection's end", async () => {
  const closed = Promise.withResolvers<void>()
  const socket = await serve((request, response) => {
    request.socket.setMaxListeners(0).once('close', closed.resolve)
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
    })
    request.on('end', () => response.end(`${request.url} ${length};`))
  })
  let received = ''
  socket.on('data', text => {
    received += text
  })
  const post = (path: string, count: number) => `${head.replace('/', path)}${tiny(count)}0\r\n\r\n`
  socket.write(post('/one', 50_000))
  await vi.waitUntil(() => received.includes('/one 50000;'), { timeout: 30_000 })
  socket.write(post('/two', 20_000) + post('/three', 3) + post('/four', 30_000))
  await vi.waitUntil(() => received.includes('/four 30000;'), { timeout: 30_000 })
  expect(received).toMatch(/two 20000;[^;]*three 3;/)
  socket.end()
  await closed.promise
})

test('a client that sends requests without reading responses is disconnected', async () => {
  const closed = Promise.withResolvers<void>()
  const socket = await serve((request, response) => {
    request.socket.setMaxListeners(0).once('close', closed.resolve)
    request.resume()
    request.on('end', () => response.end('x'.repeat(1_000_000)))
  })
  socket.write(head)
  // Slicing has started before the second request.
  socket.write('0\r\n\r\n')
  await once(socket, 'data')
  socket.pause()
  socket.write(`${head}0\r\n\r\n`.repeat(10_000))
  await closed.promise
})

test('a connection is not parsed in slices if other code reads from it', async () => {
  const socket = await serve((request, response) => response.end(String(request.method)))
  socket.write(head)
  await once(socket, 'data')
  socket.on('data', () => {})
  socket.on('data', () => {})
  expect(parseInSlices(socket)).toBe(false)
})
