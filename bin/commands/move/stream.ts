/** Reads the changes of a slot as a stream. If the reader is slow, the source must wait (backpressure). */
import type { Client } from 'pg'
import { escapeIdentifier, escapeLiteral } from 'pg'
import type { Endpoint } from '../../../instance/import/contract.ts'
import { openReplication } from './endpoints.ts'
import { decodeStreamed, positionText, type Streamed, statusMessage } from './pgoutput.ts'

type ChangeStream = {
  /** Returns the next message, or undefined if none arrives within `waitMs`. @throws the error that ended the stream */
  next(waitMs: number): Promise<Streamed | undefined>
  isEmpty(): boolean
  /** Confirms every change up to this position. `requestsReply`: the server must reply with its own position. */
  confirm(position: bigint, requestsReply?: boolean): void
  close(): Promise<void>
}

/** Adds a method that the types of pg omit. */
type ReplicationConnection = Client['connection'] & { sendCopyFromChunk(chunk: Buffer): void }

const pauseBytes = 4 * 2 ** 20
const resumeBytes = 2 ** 20

export async function openStream(source: Endpoint, name: string, from: bigint): Promise<ChangeStream> {
  const client = await openReplication(source)
  const connection = client.connection as ReplicationConnection
  const { stream: socket } = connection
  const queue = createQueue()
  let bytes = 0
  let ended: { error: unknown } | undefined
  let wake = () => {}
  const end = (error: unknown) => {
    ended ??= { error }
    wake()
  }
  connection.on('copyData', ({ chunk }: { chunk: Buffer }) => {
    queue.push(chunk)
    bytes += chunk.length
    if (bytes > pauseBytes) socket.pause()
    wake()
  })
  client.on('error', end)
  client.on('end', () => end(new Error('the source closed the connection')))
  const options = `proto_version '1', publication_names ${escapeLiteral(escapeIdentifier(name))}`
  client
    .query(`START_REPLICATION SLOT ${escapeIdentifier(name)} LOGICAL ${positionText(from)} (${options})`)
    .then(() => end(new Error('the source ended the stream')), end)
  return {
    next: async waitMs => {
      if (queue.isEmpty() && ended === undefined) {
        const { promise, resolve } = Promise.withResolvers<void>()
        wake = resolve
        const timer = setTimeout(resolve, waitMs)
        await promise
        clearTimeout(timer)
      }
      const chunk = queue.shift()
      if (chunk === undefined) {
        if (ended !== undefined) throw ended.error
        return undefined
      }
      bytes -= chunk.length
      if (bytes < resumeBytes && socket.isPaused()) socket.resume()
      return decodeStreamed(chunk)
    },
    isEmpty: queue.isEmpty,
    confirm: (position, requestsReply = false) => {
      if (ended === undefined) connection.sendCopyFromChunk(statusMessage(position, Date.now(), requestsReply))
    },
    close: async () => {
      ended ??= { error: new Error('closed') }
      socket.resume()
      const timer = setTimeout(() => socket.destroy(), 2_000)
      await client.end().catch(() => {})
      clearTimeout(timer)
    },
  }
}

/** Creates a queue. Unlike Array.shift(), its `shift` does not move all other elements of a large array each time. */
function createQueue() {
  let chunks: Buffer[] = []
  let first = 0
  return {
    push: (chunk: Buffer) => void chunks.push(chunk),
    isEmpty: () => first === chunks.length,
    shift: (): Buffer | undefined => {
      const chunk = chunks[first]
      if (chunk !== undefined) first++
      if (first >= 10_000) {
        chunks = chunks.slice(first)
        first = 0
      }
      return chunk
    },
  }
}
