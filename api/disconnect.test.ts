/**
 * Clients that disconnect before the API waits for it, and requests that wait behind another request of their
 * connection.
 */
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { onceClosed } from './disconnect.ts'
import { until } from './testing/client.ts'

const server = createServer((_, response) => void responses.push(response))
const responses: ServerResponse[] = []
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => void server.close())

/** Sends this many requests on one connection, and returns a function that disconnects. */
async function send(count: number): Promise<() => void> {
  responses.length = 0
  const { port } = server.address() as AddressInfo // a TCP server has an AddressInfo
  const socket = connect(port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(count))
  await until(() => responses.length === count)
  return () => socket.destroy()
}

function watch(response: ServerResponse | undefined): () => number {
  let calls = 0
  if (response !== undefined) onceClosed({ raw: response }, () => calls++)
  return () => calls
}

test('reports a disconnected client once, also if the client disconnected before the call', async () => {
  const disconnect = await send(1)
  const early = watch(responses[0])
  disconnect()
  await until(() => early() > 0)
  await until(() => responses[0]?.closed === true)
  expect(watch(responses[0])()).toBe(1)
  expect(early()).toBe(1)
})

test('reports the disconnect for a request behind another one too; the end of one request does not end the other', async () => {
  const disconnect = await send(2)
  const [first, second] = responses.map(watch)
  responses[0]?.end()
  await until(() => first?.() === 1)
  expect(second?.()).toBe(0)
  responses[1]?.end()
  await until(() => second?.() === 1)
  disconnect()

  const abandon = await send(3)
  const calls = responses.map(watch)
  abandon()
  await until(() => calls.every(count => count() === 1))
})
