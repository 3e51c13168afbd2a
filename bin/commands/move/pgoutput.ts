/** Decodes the messages of Postgres's output plugin pgoutput, protocol version 1. Pure. */

export type Column = { name: string; type: number; isKey: boolean }
export type Relation = { schema: string; name: string; hasFullIdentity: boolean; columns: Column[] }

/** The text of each column. Undefined means a large value that the statement did not change. */
export type Row = (string | null | undefined)[]

export type Change =
  | { kind: 'insert'; relation: number; row: Row }
  /** `old` is the old key, or the old row of a table with full identity; undefined if the key is unchanged. */
  | { kind: 'update'; relation: number; old: Row | undefined; row: Row }
  | { kind: 'delete'; relation: number; old: Row }
  | { kind: 'truncate'; relations: number[]; restartsIdentity: boolean }

type Message =
  | Change
  | { kind: 'begin' }
  /** `end` is the position after the transaction. */
  | { kind: 'commit'; end: bigint; at: number }
  | { kind: 'relation'; id: number; relation: Relation }
  | { kind: 'other' }

/** Postgres counts microseconds from the start of 2000. */
const epochMs = Date.UTC(2000, 0, 1)
const fromPostgresTime = (microseconds: bigint): number => epochMs + Number(microseconds / 1000n)
export const toPostgresTime = (ms: number): bigint => BigInt(ms - epochMs) * 1000n

const readerOf = (buffer: Buffer) => {
  let at = 0
  const read = <T>(value: T, length: number): T => {
    at += length
    return value
  }
  const reader = {
    letter: () => String.fromCharCode(reader.byte()),
    byte: () => read(buffer.readUInt8(at), 1),
    int16: () => read(buffer.readUInt16BE(at), 2),
    int32: () => read(buffer.readUInt32BE(at), 4),
    int64: () => read(buffer.readBigUInt64BE(at), 8),
    text: () => {
      const end = buffer.indexOf(0, at)
      return read(buffer.toString('utf8', at, end), end + 1 - at)
    },
    value: () => {
      const length = reader.int32()
      return read(buffer.toString('utf8', at, at + length), length)
    },
  }
  return reader
}
type Reader = ReturnType<typeof readerOf>

function rowOf(reader: Reader): Row {
  return Array.from({ length: reader.int16() }, () => {
    const kind = reader.letter()
    if (kind === 'n') return null
    if (kind === 'u') return undefined
    if (kind === 't') return reader.value()
    throw new Error(`the source sent a value of the unknown format ${kind}`)
  })
}

function relationOf(reader: Reader): Message {
  const id = reader.int32()
  const schema = reader.text() || 'pg_catalog'
  const name = reader.text()
  const hasFullIdentity = reader.letter() === 'f'
  const columns = Array.from({ length: reader.int16() }, () => {
    const isKey = (reader.byte() & 1) === 1
    const column = { isKey, name: reader.text(), type: reader.int32() }
    reader.int32() // the type's modifier
    return column
  })
  return { kind: 'relation', id, relation: { schema, name, hasFullIdentity, columns } }
}

function updateOf(reader: Reader): Message {
  const relation = reader.int32()
  const first = reader.letter()
  if (first === 'N') return { kind: 'update', relation, old: undefined, row: rowOf(reader) }
  const old = rowOf(reader)
  reader.letter() // N
  return { kind: 'update', relation, old, row: rowOf(reader) }
}

export function decode(buffer: Buffer): Message {
  const reader = readerOf(buffer)
  const letter = reader.letter()
  switch (letter) {
    case 'B':
      return { kind: 'begin' }
    case 'C': {
      reader.byte()
      reader.int64()
      return { kind: 'commit', end: reader.int64(), at: fromPostgresTime(reader.int64()) }
    }
    case 'R':
      return relationOf(reader)
    case 'I': {
      const relation = reader.int32()
      reader.letter() // N
      return { kind: 'insert', relation, row: rowOf(reader) }
    }
    case 'U':
      return updateOf(reader)
    case 'D': {
      const relation = reader.int32()
      reader.letter() // K or O
      return { kind: 'delete', relation, old: rowOf(reader) }
    }
    case 'T': {
      const count = reader.int32()
      const restartsIdentity = (reader.byte() & 2) === 2
      return { kind: 'truncate', restartsIdentity, relations: Array.from({ length: count }, () => reader.int32()) }
    }
    // O is the origin of a transaction, Y the description of a type.
    case 'O':
    case 'Y':
      return { kind: 'other' }
    default:
      throw new Error(`the source sent a message of the unknown kind ${letter}`)
  }
}

/** A message of the replication stream: data, or the server's position. */
export type Streamed =
  | { kind: 'data'; end: bigint; payload: Buffer }
  | { kind: 'position'; end: bigint; wantsReply: boolean }

export function decodeStreamed(chunk: Buffer): Streamed {
  const reader = readerOf(chunk)
  const letter = reader.letter()
  const first = reader.int64()
  if (letter === 'k') return { kind: 'position', end: first, wantsReply: chunk.readUInt8(17) === 1 }
  if (letter !== 'w') throw new Error(`the source sent a message of the unknown kind ${letter}`)
  return { kind: 'data', end: reader.int64(), payload: chunk.subarray(25) }
}

/** Returns the message that confirms every change up to this position, and that can request the server's position. */
export function statusMessage(position: bigint, now: number, requestsReply = false): Buffer {
  const message = Buffer.alloc(34)
  message.write('r')
  for (const offset of [1, 9, 17]) message.writeBigUInt64BE(position, offset)
  message.writeBigInt64BE(toPostgresTime(now), 25)
  message.writeUInt8(requestsReply ? 1 : 0, 33)
  return message
}

export function parsePosition(text: string): bigint {
  const [high = '', low = ''] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}
export const positionText = (position: bigint): string =>
  `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`.toUpperCase()
