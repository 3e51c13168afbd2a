/** Tests the WAL receiver with a server of the replication protocol and an archive in memory. */
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { ReplicationConnection } from '../replication/connection.ts'
import type { ArchiveClient } from './client.ts'
import { receiveTail } from './receiver.ts'
import { ArchiveState } from './state.ts'
import { ArchiveFault } from './transport.ts'
import { lsnOf } from './wal.ts'

const segmentBytes = 16n << 20n
const start = 5n * segmentBytes
const segment = '000000010000000000000005'
const before = '000000010000000000000004'
const wal = Buffer.from('the WAL of a segment, from its first byte on')

const message = (type: string, body: Buffer | string = ''): Buffer => {
  const content = Buffer.from(body)
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeInt32BE(content.length + 4, 1)
  return Buffer.concat([head, content])
}
const row = (...columns: string[]): Buffer => {
  const fields = columns.flatMap(text => {
    const length = Buffer.alloc(4)
    length.writeInt32BE(text.length)
    return [length, Buffer.from(text)]
  })
  const count = Buffer.alloc(2)
  count.writeInt16BE(columns.length)
  return Buffer.concat([message('D', Buffer.concat([count, ...fields])), message('C'), message('Z', 'I')])
}

/** A Postgres that has flushed `flushed` bytes of the segment, and sends WAL from the requested position. */
async function postgres(flushed: number) {
  const sockets: Socket[] = []
  const answer = (socket: Socket, statement: string): void => {
    if (statement.startsWith('IDENTIFY')) socket.write(row('1', '1', lsnOf(start + BigInt(flushed)), ''))
    else if (statement.startsWith('SHOW')) socket.write(row('16MB'))
    else {
      const [, low = ''] = /PHYSICAL 0\/([0-9A-F]+)/.exec(statement) ?? []
      socket.write(message('W', Buffer.alloc(3)))
      send(socket, Number.parseInt(low, 16) - Number(start), flushed)
    }
  }
  const send = (socket: Socket, from: number, to: number): void => {
    const head = Buffer.alloc(25)
    head.write('w', 'latin1')
    head.writeBigUInt64BE(start + BigInt(from), 1)
    head.writeBigUInt64BE(start + BigInt(to), 9)
    socket.write(message('d', Buffer.concat([head, wal.subarray(from, to)])))
  }
  const server = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), message('Z', 'I')]))
      socket.on('data', bytes => bytes[0] === 'Q'.charCodeAt(0) && answer(socket, bytes.toString('latin1', 5)))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    sockets,
    connect: (name: string) =>
      ReplicationConnection.open(dial((server.address() as AddressInfo).port, '127.0.0.1'), 'replication', name),
    write(from: number, to: number): void {
      for (const socket of sockets) send(socket, from, to)
    },
  }
}

/** An archive with the first ten bytes of the segment. */
function archiveOf(acceptsStreams: boolean) {
  const pieces: string[] = []
  const predecessors: (Buffer | undefined)[] = []
  const client: ArchiveClient = {
    acceptsStreams: () => acceptsStreams,
    acceptsZstd: () => true,
    certificates: () => ({ cert: '', key: '', ca: '' }),
    close: () => {},
    send: async (method, path, { predecessor }) => {
      if (method === 'PUT') {
        pieces.push(path.slice('tail/'.length))
        predecessors.push(predecessor)
      }
      const isTail = path === `tail/${segment}`
      return { status: isTail ? 204 : 404, headers: isTail ? { 'espalier-length': '10' } : {}, body: Buffer.alloc(0) }
    },
  }
  return { client, pieces, predecessors }
}

const digests = async (name: string) =>
  name === before ? { sha256: Buffer.alloc(32, 7), size: Number(segmentBytes) } : undefined

function receive(client: ArchiveClient, connect: (name: string) => Promise<ReplicationConnection>): ArchiveState {
  const state = new ArchiveState(Date.now, () => {})
  const ending = new AbortController()
  const ended = receiveTail({ client, state, connect, digests, signal: ending.signal, now: Date.now })
  onTestFinished(async () => {
    ending.abort(new Error('the test is over'))
    await ended
  })
  return state
}

test('a stream starts at the first byte of the segment, and its first piece names the previous segment', async () => {
  const [server, archive] = [await postgres(20), archiveOf(true)]
  receive(archive.client, server.connect)
  await expect.poll(() => archive.pieces.length, { timeout: 5000 }).toBe(1)
  server.write(20, 30)
  await expect.poll(() => archive.pieces.length, { timeout: 5000 }).toBe(2)
  const [first = '', second = ''] = archive.pieces
  const stream = first.split('.')[2]
  expect(stream).toMatch(/^[0-9a-f]{16}$/)
  expect(archive.predecessors).toEqual([Buffer.alloc(32, 7), undefined])
  expect([first, second]).toEqual([`${segment}.00000000-00000014.${stream}`, `${segment}.00000014-0000000A.${stream}`])
})

test('an archive of an earlier version receives only the missing bytes, without a stream', async () => {
  const [server, archive] = [await postgres(20), archiveOf(false)]
  receive(archive.client, server.connect)
  await expect.poll(() => archive.pieces, { timeout: 5000 }).toEqual([`${segment}.0000000A-0000000A`])
})

test('after the archive refused a segment, no piece is sent', async () => {
  const [server, archive] = [await postgres(20), archiveOf(true)]
  const state = receive(archive.client, server.connect)
  await expect.poll(() => archive.pieces.length, { timeout: 5000 }).toBe(1)
  state.failed('segments', new ArchiveFault('conflict', 'the archive has other content'))
  server.write(20, 30)
  await expect.poll(() => server.sockets.every(({ closed }) => closed), { timeout: 5000 }).toBe(true)
  await new Promise(resolve => setTimeout(resolve, 1000))
  expect([archive.pieces.length, server.sockets.length]).toEqual([1, 1])
  expect(state.status()).toMatchObject({ state: 'conflict', error: { message: 'the archive has other content' } })
})
