/** The messages of the extended query protocol that a request takes (Postgres manual section 55.7), both ways. */
import { DatabaseError } from './errors.ts'

/** Bytes in one piece or in several, one after the other. */
export type Bytes = Buffer | readonly Buffer[]
/** As text, but what is `binary`. */
export type Parameter = string | Bytes | Binary | null

export const piecesOf = (bytes: Bytes): readonly Buffer[] => (Buffer.isBuffer(bytes) ? [bytes] : bytes)

type Binary = { readonly binary: Bytes }
const isBinary = (value: Parameter): value is Binary => typeof value === 'object' && value !== null && 'binary' in value

/** Buffers are made this large and handed out piece by piece: one for each batch would be most of what there is to collect. */
const slabBytes = 65_536
/** What is left of a slab is used while there is this much of it. */
const leastRoom = 2_048
/** A piece of so many bytes is sent as it is: what is large is in memory once. */
const ownPieceBytes = 32_768

/** Two pieces as one, without a copy; undefined where the second does not follow the first in memory. */
export const joinedPiece = (first: Buffer, second: Buffer): Buffer | undefined =>
  first.buffer === second.buffer && first.byteOffset + first.length === second.byteOffset
    ? Buffer.from(first.buffer, first.byteOffset, first.length + second.length)
    : undefined

/** Puts messages one after the other into one buffer, which grows; what is large stands between such buffers. */
export class MessageWriter {
  #buffer = Buffer.allocUnsafe(slabBytes)
  /** Where what has not been taken or sealed begins. */
  #from = 0
  #length = 0
  /** Of this batch, what comes before the buffer. */
  #sealed: Buffer[] = []
  #sealedBytes = 0
  /** Where the length of the message that is being written goes, and how many bytes of the batch come before that. */
  #start = { buffer: this.#buffer, at: 0, before: 0 }

  /** Bytes of this batch. */
  get #written(): number {
    return this.#sealedBytes + this.#length - this.#from
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return
    const batch = this.#length - this.#from
    const larger = Buffer.allocUnsafe(Math.max(slabBytes, batch * 2, batch + bytes))
    this.#buffer.copy(larger, 0, this.#from, this.#length)
    if (this.#start.buffer === this.#buffer && this.#start.at >= this.#from) {
      this.#start.buffer = larger
      this.#start.at -= this.#from
    }
    this.#from = 0
    this.#length = batch
    this.#buffer = larger
  }

  /** Puts a piece behind all that has been written, without a copy. */
  #insert(piece: Buffer): void {
    const before = this.#buffer.subarray(this.#from, this.#length)
    this.#sealed.push(before, piece)
    this.#sealedBytes += before.length + piece.length
    this.#from = this.#length
  }

  #begin(type: number): void {
    this.#room(5)
    this.#buffer[this.#length] = type
    this.#start = { buffer: this.#buffer, at: this.#length + 1, before: this.#written + 1 }
    this.#length += 5
  }

  #end(): void {
    const { buffer, at, before } = this.#start
    buffer.writeInt32BE(this.#written - before, at)
  }

  #int16(value: number): void {
    this.#room(2)
    this.#length = this.#buffer.writeInt16BE(value, this.#length)
  }

  /** A 16-bit number without a sign. */
  #count(value: number): void {
    this.#room(2)
    this.#length = this.#buffer.writeUInt16BE(value, this.#length)
  }

  #int32(value: number): void {
    this.#room(4)
    this.#length = this.#buffer.writeInt32BE(value, this.#length)
  }

  #text(text: string): void {
    const bytes = Buffer.byteLength(text)
    this.#room(bytes + 1)
    this.#length += this.#buffer.write(text, this.#length)
    this.#buffer[this.#length++] = 0
  }

  #parameter(value: Parameter): void {
    if (value === null) this.#int32(-1)
    else if (typeof value === 'string') {
      const bytes = Buffer.byteLength(value)
      this.#int32(bytes)
      this.#room(bytes)
      this.#length += this.#buffer.write(value, this.#length)
    } else {
      const pieces = piecesOf(isBinary(value) ? value.binary : value)
      this.#int32(pieces.reduce((sum, { length }) => sum + length, 0))
      for (const piece of pieces) this.#piece(piece)
    }
  }

  #piece(piece: Buffer): void {
    if (piece.length >= ownPieceBytes) this.#insert(piece)
    else {
      this.#room(piece.length)
      this.#length += piece.copy(this.#buffer, this.#length)
    }
  }

  /** Parse: `name` is empty for a statement that is used once. */
  parse(name: string, text: string): void {
    this.#begin(0x50)
    this.#text(name)
    this.#text(text)
    this.#int16(0)
    this.#end()
  }

  /** Bind to the unnamed portal: results in the formats given (0 text, 1 binary), none meaning all text. */
  bind(name: string, parameters: readonly Parameter[], formats: readonly number[]): void {
    this.#begin(0x42)
    this.#text('')
    this.#text(name)
    if (parameters.some(isBinary)) {
      this.#count(parameters.length)
      for (const parameter of parameters) this.#int16(isBinary(parameter) ? 1 : 0)
    } else this.#int16(0)
    this.#count(parameters.length)
    for (const parameter of parameters) this.#parameter(parameter)
    this.#int16(formats.length)
    for (const format of formats) this.#int16(format)
    this.#end()
  }

  /** Describe of the unnamed portal. */
  describe(): void {
    this.#begin(0x44)
    this.#room(1)
    this.#buffer[this.#length++] = 0x50
    this.#text('')
    this.#end()
  }

  /** Execute of the unnamed portal; 0 is all rows. */
  execute(maximumRows = 0): void {
    this.#begin(0x45)
    this.#text('')
    this.#int32(maximumRows)
    this.#end()
  }

  /** Close of a prepared statement. */
  close(name: string): void {
    this.#begin(0x43)
    this.#room(1)
    this.#buffer[this.#length++] = 0x53
    this.#text(name)
    this.#end()
  }

  sync(): void {
    this.#begin(0x53)
    this.#end()
  }

  /** Everything since the last call, to be sent in this order. */
  take(): readonly Buffer[] {
    const taken = [...this.#sealed, this.#buffer.subarray(this.#from, this.#length)]
    this.#sealed = []
    this.#sealedBytes = 0
    // The socket may hold on to it: the next batch stands after it, or in a buffer of its own. A large one is not kept for little ones.
    const isSpent = this.#buffer.length - this.#length < leastRoom || this.#buffer.length > slabBytes
    if (isSpent) this.#buffer = Buffer.allocUnsafe(slabBytes)
    this.#from = isSpent ? 0 : this.#length
    this.#length = this.#from
    return taken
  }
}

/** Takes each message: its type, and where its content stands in the buffer. */
type MessageHandler = (type: number, buffer: Buffer, start: number, end: number) => void

/** Takes rows as they come: of what is large in the last cell, each part is in memory only while it is handed on. */
export type RowSink = {
  /** Whether it takes only rows that are too large to have come in one go; the others are the run's result. */
  readonly isForLarge: boolean
  /** A row begins: all its cells but the last, and how many bytes that one has. */
  begin(cells: readonly (Buffer | null)[], lastLength: number): void
  /** What comes next of the last cell. */
  push(part: Buffer): void
  /** All that has come of the connection by now has been handed on. */
  flush(): void
}

const dataRowType = 0x44

/** Cuts a stream of bytes into messages. A large one is put together in one buffer of its size, so that it is in memory once; or handed on in parts, where it is a row for a sink. */
export class MessageReader {
  readonly #handle: MessageHandler
  readonly #admits: (bytes: number) => boolean
  readonly #sink: () => RowSink | undefined
  /** A row that is handed on, and how much of it is still to come. */
  #through: { sink: RowSink; left: number } | undefined
  /** Of what comes after a message that was not admitted, nothing is read. */
  #isOver = false
  #rest: Buffer | undefined
  /** A message that has begun, and how much of it is there. */
  #large: { buffer: Buffer; filled: number } | undefined

  /** `admits` is asked before a message is put together, `sink` whether it is to be handed on in parts. */
  constructor(
    handle: MessageHandler,
    admits: (bytes: number) => boolean = () => true,
    sink: () => RowSink | undefined = () => undefined,
  ) {
    this.#handle = handle
    this.#admits = admits
    this.#sink = sink
  }

  push(chunk: Buffer): void {
    if (this.#isOver) return
    let at = 0
    if (this.#through !== undefined) {
      at = Math.min(chunk.length, this.#through.left)
      this.#through.left -= at
      this.#through.sink.push(chunk.subarray(0, at))
      if (this.#through.left > 0) return
      this.#through = undefined
    }
    if (this.#large !== undefined) {
      const { buffer, filled } = this.#large
      const taken = chunk.copy(buffer, filled)
      this.#large.filled += taken
      if (this.#large.filled < buffer.length) return
      this.#large = undefined
      this.#handle(buffer[0] ?? 0, buffer, 5, buffer.length)
      at = taken
    }
    let data = chunk
    if (this.#rest !== undefined) {
      data = Buffer.concat([this.#rest, chunk.subarray(at)])
      this.#rest = undefined
      at = 0
    }
    while (data.length - at >= 5) {
      const end = at + 1 + data.readInt32BE(at + 1)
      if (end > data.length) {
        const sink = data[at] === dataRowType ? this.#sink() : undefined
        if (sink !== undefined) {
          this.#begin(sink, data.subarray(at), end - at)
          return
        }
        if (!this.#admits(end - at)) {
          this.#isOver = true
          return
        }
        const buffer = Buffer.allocUnsafe(end - at)
        this.#large = { buffer, filled: data.copy(buffer, 0, at) }
        return
      }
      this.#handle(data[at] ?? 0, data, at + 5, end)
      at = end
    }
    if (at < data.length) this.#rest = data.subarray(at)
  }

  /** Of a row that has begun to come, `whole` bytes long; where not all its cells but the last are there, they are waited for. */
  #begin(sink: RowSink, data: Buffer, whole: number): void {
    const head = rowHead(data, 5)
    if (head === undefined) {
      this.#rest = data
      return
    }
    sink.begin(head.cells, head.lastLength)
    this.#through = { sink, left: whole - data.length }
    sink.push(data.subarray(head.at))
  }
}

/** All cells but the last of a DataRow, how long that one is (-1: null) and where it begins; undefined where the buffer ends before it. */
export function rowHead(
  buffer: Buffer,
  start: number,
): { cells: (Buffer | null)[]; lastLength: number; at: number } | undefined {
  const cells: (Buffer | null)[] = []
  let at = start + 2
  if (at > buffer.length) return undefined
  for (let left = buffer.readInt16BE(start); left > 0; left--) {
    if (at + 4 > buffer.length) return undefined
    const length = buffer.readInt32BE(at)
    at += 4
    if (left === 1) return { cells, lastLength: length, at }
    if (at + length > buffer.length) return undefined
    cells.push(length === -1 ? null : buffer.subarray(at, at + length))
    at += Math.max(0, length)
  }
  return { cells, lastLength: -1, at }
}

/** The cells of a DataRow, as they stand in its buffer. */
export function dataRow(buffer: Buffer, start: number): (Buffer | null)[] {
  const count = buffer.readInt16BE(start)
  const cells: (Buffer | null)[] = []
  let at = start + 2
  for (let index = 0; index < count; index++) {
    const length = buffer.readInt32BE(at)
    at += 4
    if (length === -1) cells.push(null)
    else {
      cells.push(buffer.subarray(at, at + length))
      at += length
    }
  }
  return cells
}

/** The cells of a DataRow as text. Most rows are ASCII and are decoded at once, for each buffer and each call of the decoder costs more than the text. */
export function dataRowText(buffer: Buffer, start: number, end: number): (string | null)[] {
  let at = start
  // Lengths from 128 on have such bytes as well, and so has null.
  while (at < end && (buffer[at] ?? 0) < 0x80) at++
  const text = at === end ? buffer.toString('latin1', start, end) : undefined
  const count = buffer.readInt16BE(start)
  const cells: (string | null)[] = []
  at = start + 2
  for (let index = 0; index < count; index++) {
    const length = buffer.readInt32BE(at)
    at += 4
    if (length === -1) cells.push(null)
    else {
      cells.push(
        text === undefined ? buffer.toString('utf8', at, at + length) : text.slice(at - start, at - start + length),
      )
      at += length
    }
  }
  return cells
}

export type Field = { readonly name: string; readonly type: number }

/** Names and types of the columns, of a RowDescription. */
export function rowDescription(buffer: Buffer, start: number): Field[] {
  const fields: Field[] = []
  let at = start + 2
  for (let left = buffer.readInt16BE(start); left > 0; left--) {
    const close = buffer.indexOf(0, at)
    // After the name: its table (4), its number there (2), its type (4), size (2), modifier (4) and format (2).
    fields.push({ name: buffer.toString('utf8', at, close), type: buffer.readUInt32BE(close + 7) })
    at = close + 19
  }
  return fields
}

/** The number at the end of a command tag (`INSERT 0 5`, `UPDATE 5`); 0 where there is none. */
export function affectedRows(buffer: Buffer, start: number, end: number): number {
  let count = 0
  let place = 1
  for (let at = end - 2; at >= start; at--) {
    const digit = (buffer[at] ?? 0) - 0x30
    if (digit < 0 || digit > 9) break
    count += digit * place
    place *= 10
  }
  return count
}

/** An error repeats a value that is wrong, however large: so much of a field is kept. */
const maximumFieldBytes = 1_048_576

export function errorResponse(buffer: Buffer, start: number, end: number): DatabaseError {
  const fields = new Map<string, string>()
  for (let at = start; at < end && buffer[at] !== 0; ) {
    const close = buffer.indexOf(0, at + 1)
    if (close === -1 || close >= end) break
    const kept = Math.min(close, at + 1 + maximumFieldBytes)
    fields.set(String.fromCharCode(buffer[at] ?? 0), buffer.toString('utf8', at + 1, kept))
    at = close + 1
  }
  return new DatabaseError(fields)
}
