/** A server sends messages that Postgres never sends. Its connection ends, and this process does not. */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { connectionAddress } from './address.ts'
import { Connection } from './connection.ts'
import { ConnectionFailure } from './errors.ts'

/** AuthenticationOk and ReadyForQuery. */
const login = Buffer.from('520000000800000000' + '5a0000000549', 'hex')

test.each([
  ['a row that states more values than it has', '44' + '00000006' + '7fff'],
  ['a length below the minimum', '5a' + 'ffffffff'],
])('%s ends the connection', async (_, bytes) => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(login)
      socket.once('data', () => socket.write(Buffer.from(bytes, 'hex')))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo // A TCP server has an AddressInfo.
  const address = connectionAddress(`postgresql://u@127.0.0.1:${port}/u?sslmode=disable`)
  let isEnded = false
  const connection = await Connection.open(address, Date.now, () => {
    isEnded = true
  })
  const steps = [{ text: 'SELECT 1', values: [] }]
  await expect(connection.run(steps, false)).rejects.toBeInstanceOf(ConnectionFailure)
  expect(isEnded).toBe(true)
})
