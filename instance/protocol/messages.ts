/**
 * Reads Postgres's messages from a stream of bytes (manual, "Message Formats"). It reads only as fast as the consumer.
 */

/** `body`: without type and length. */
export type Message = { readonly type: string; readonly body: Buffer }

/** A base backup sends data in messages of up to 64 KiB; WAL in messages of up to 128 KiB. */
const mostBytes = 1024 * 1024
const headBytes = 5

/** Postgres has closed the connection. */
export class ConnectionClosed extends Error {
  constructor(when = '') {
    super(`Postgres closed the connection${when}`)
    this.name = 'ConnectionClosed'
  }
}

/** @throws Error if the message is an authentication request other than AuthenticationOk */
export function requireAuthenticated({ type, body }: Message): void {
  if (type === 'R' && body.readInt32BE(0) !== 0)
    throw new Error('Postgres asks for another login method; pg_hba.conf must accept this login by certificate')
}

/**
 * The buffer for messages that arrive in several chunks. WAL has messages of up to 128 KiB and never needs a larger
 * buffer.
 */
const joinedBytes = 256 * 1024

/**
 * The body of a message is valid until the next message is requested. All messages of several chunks are collected in
 * one buffer. At the rate of WAL, a new buffer for each message would stay in memory until a garbage collection.
 * @throws Error for bytes that are not a message, ConnectionClosed if the stream ends within a message
 */
export async function* messagesOf(source: AsyncIterable<Buffer>): AsyncGenerator<Message> {
  let joined: Buffer = Buffer.alloc(0)
  let size = 0
  for await (const chunk of source)
    for (let at = 0; at < chunk.length; ) {
      const fullLength = size === 0 ? lengthAt(chunk, at) : undefined
      if (fullLength !== undefined && chunk.length - at > fullLength) {
        yield messageOf(chunk, at, fullLength)
        at += fullLength + 1
        continue
      }
      const begun = lengthAt(joined.subarray(0, size), 0)
      const some = chunk.subarray(at, at + (begun === undefined ? headBytes : begun + 1) - size)
      if (joined.length < size + some.length) joined = enlarged(joined.subarray(0, size), begun ?? 0)
      some.copy(joined, size)
      size += some.length
      at += some.length
      // A message without a body is complete as soon as its length is read.
      const length = begun ?? lengthAt(joined.subarray(0, size), 0)
      if (length === undefined || size <= length) continue
      size = 0
      yield messageOf(joined, 0, length)
    }
  if (size > 0) throw new ConnectionClosed(' within a message')
}

function enlarged(bytes: Buffer, length: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.max(joinedBytes, length + 1))
  bytes.copy(larger)
  return larger
}

const messageOf = (bytes: Buffer, at: number, length: number): Message => ({
  type: String.fromCharCode(bytes[at] ?? 0),
  body: bytes.subarray(at + headBytes, at + length + 1),
})

/** The length of a message without its type; undefined if it has not arrived. */
function lengthAt(bytes: Buffer, at: number): number | undefined {
  if (bytes.length < at + headBytes) return undefined
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > mostBytes)
    throw new Error(`Postgres sent an invalid message, or a message above ${mostBytes} bytes`)
  return length
}

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
const text = (value: string): Buffer => Buffer.from(`${value}\0`)

const framed = (type: string, body: Buffer): Buffer =>
  Buffer.concat([Buffer.from(type, 'latin1'), int32(body.length + 4), body])

const protocolVersion = 196_608

export function startupMessage(parameters: Readonly<Record<string, string>>): Buffer {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => [text(name), text(value)])
  const body = Buffer.concat([int32(protocolVersion), ...pairs, Buffer.of(0)])
  return Buffer.concat([int32(body.length + 4), body])
}
export const queryMessage = (statement: string): Buffer => framed('Q', text(statement))
export const copyMessage = (data: Buffer): Buffer => framed('d', data)
export const copyDoneMessage = (): Buffer => framed('c', Buffer.alloc(0))
export const terminateMessage = (): Buffer => framed('X', Buffer.alloc(0))

/** The columns of a DataRow as text; null for NULL. */
export function columnsOf(row: Buffer): (string | null)[] {
  const columns: (string | null)[] = []
  let at = 2
  for (let remaining = row.readInt16BE(0); remaining > 0; remaining--) {
    const length = row.readInt32BE(at)
    at += 4
    columns.push(length < 0 ? null : row.toString('utf8', at, at + length))
    at += Math.max(length, 0)
  }
  return columns
}

/** An error that Postgres reports. */
export class PostgresError extends Error {
  /** SQLSTATE (manual, "PostgreSQL Error Codes"). */
  readonly code: string

  /** @param body the body of an ErrorResponse */
  constructor(body: Buffer) {
    const fields = body.toString('utf8').split('\0')
    const field = (type: string): string | undefined => fields.find(one => one.startsWith(type))?.slice(1)
    super(field('M') ?? 'Postgres gave no reason')
    this.name = 'PostgresError'
    this.code = field('C') ?? ''
  }
}
