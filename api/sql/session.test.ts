/** A session whose server sends messages that no Postgres sends. */
import { Duplex } from 'node:stream'
import { expect, test } from 'vitest'
import { Session } from './session.ts'

class Server extends Duplex {
  override _read() {}
  override _write(_chunk: Buffer, _encoding: string, done: () => void) {
    done()
  }
}

test.each([
  ['a row that states more values than it has', '44' + '00000006' + '7fff'],
  ['a length below the minimum', '5a' + 'ffffffff'],
  ['a description without names', '54' + '00000006' + '7fff'],
])('%s ends the session with an error', async (_, bytes) => {
  const server = new Server()
  const backend = { processID: 1, secretKey: 1, host: '127.0.0.1', port: 1, ssl: false } as const
  // The session uses only this part of a socket.
  const socket = server as unknown as ConstructorParameters<typeof Session>[0]['socket']
  const session = new Session({ socket, backend }, true)
  setImmediate(() => server.push(Buffer.from(bytes, 'hex')))
  await expect(session.begin()).rejects.toMatchObject({ line: { type: 'error', sqlstate: '08P01' } })
})
