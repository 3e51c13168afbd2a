/** One GET: a server that never sends a response. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { getJson } from './json-request.ts'

test.each([
  ['switches protocols', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
  ['only continues', 'HTTP/1.1 100 Continue\r\n\r\n'],
])('a server that %s is an error', async (_, text) => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => socket.write(text))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const read = getJson({ secure: false, host: '127.0.0.1', port, path: '/', mostBytes: 100, timeoutMs: 300 })
  await expect(read).rejects.toThrow()
  server.close()
})
