/** Messages of Postgres out of a stream of bytes (manual, "Message Formats"). Reading is as fast as the reader takes them. */

/** `body`: without type and length. */
export type Message = { readonly type: string; readonly body: Buffer }

/** A base backup sends data in messages of up to 64 KiB; WAL in messages of up to 128 KiB. */
const mostBytes = 1024 * 1024
const headBytes = 5

/** @throws Error for bytes that are no message, and if the stream ends within one */
export async function* messagesOf(source: AsyncIterable<Buffer>): AsyncGenerator<Message> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of source) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    for (;;) {
      const length = lengthAt(rest, at)
      if (length === undefined || rest.length < at + length + 1) break
      yield { type: String.fromCharCode(rest[at] ?? 0), body: rest.subarray(at + headBytes, at + length + 1) }
      at += length + 1
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new Error('Postgres closed the connection within a message')
}

/** Of a message without its type; undefined where it has not arrived. */
function lengthAt(bytes: Buffer, at: number): number | undefined {
  if (bytes.length < at + headBytes) return undefined
  const length = bytes.readInt32BE(at + 1)
  if (length < 4 || length > mostBytes) throw new Error('Postgres sent a message that is not one of its protocol')
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
export const terminateMessage = (): Buffer => framed('X', Buffer.alloc(0))

/** The columns of a DataRow as text; null for NULL. */
export function columnsOf(row: Buffer): (string | null)[] {
  const columns: (string | null)[] = []
  let at = 2
  for (let left = row.readInt16BE(0); left > 0; left--) {
    const length = row.readInt32BE(at)
    at += 4
    columns.push(length < 0 ? null : row.toString('utf8', at, at + length))
    at += Math.max(length, 0)
  }
  return columns
}

/** What Postgres refused with. */
export class PostgresError extends Error {
  /** SQLSTATE (manual, "PostgreSQL Error Codes"). */
  readonly code: string

  /** @param body of an ErrorResponse */
  constructor(body: Buffer) {
    const fields = body.toString('utf8').split('\0')
    const field = (type: string): string | undefined => fields.find(one => one.startsWith(type))?.slice(1)
    super(field('M') ?? 'Postgres gave no reason')
    this.name = 'PostgresError'
    this.code = field('C') ?? ''
  }
}
