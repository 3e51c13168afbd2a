/**
 * Encodes and decodes the messages of the extended query protocol that requests need (Postgres manual section 55.7).
 */
import { DatabaseError, ProtocolError } from './errors.ts'

/** Bytes in one Buffer or in several, in order. */
export type Bytes = Buffer | readonly Buffer[]
/** A parameter is sent as text, except `binary`. */
export type Parameter = string | Bytes | Binary | null

export const piecesOf = (bytes: Bytes): readonly Buffer[] => (Buffer.isBuffer(bytes) ? [bytes] : bytes)

type Binary = { readonly binary: Bytes }
const isBinary = (value: Parameter): value is Binary => typeof value === 'object' && value !== null && 'binary' in value

/**
 * Buffers of this size are allocated and then used piece by piece. One buffer for each batch would be most of the
 * garbage.
 */
const slabBytes = 65_536
/** The rest of a buffer is used as long as it has at least this many bytes. */
const leastFreeBytes = 2_048
/** A piece of at least this size is sent without a copy, so that large values are in memory only once. */
const ownPieceBytes = 32_768

/** Joins two pieces without a copy; undefined if they are not adjacent in memory. */
export const joinedPiece = (first: Buffer, second: Buffer): Buffer | undefined =>
  first.buffer === second.buffer && first.byteOffset + first.length === second.byteOffset
    ? Buffer.from(first.buffer, first.byteOffset, first.length + second.length)
    : undefined

/** Appends messages to a growing buffer; large pieces are placed between such buffers. */
export class MessageWriter {
  #buffer = Buffer.allocUnsafe(slabBytes)
  /** The start of the bytes that are neither taken nor sealed. */
  #from = 0
  #length = 0
  /** Pieces of this batch before the buffer. */
  #sealed: Buffer[] = []
  #sealedBytes = 0
  /** Position of the current message's length, and the bytes of the batch before it. */
  #start = { buffer: this.#buffer, at: 0, before: 0 }

  /** Bytes of this batch. */
  get #written(): number {
    return this.#sealedBytes + this.#length - this.#from
  }

  #ensureFree(bytes: number): void {
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

  /** Appends a piece without a copy. */
  #insert(piece: Buffer): void {
    const before = this.#buffer.subarray(this.#from, this.#length)
    this.#sealed.push(before, piece)
    this.#sealedBytes += before.length + piece.length
    this.#from = this.#length
  }

  #begin(type: number): void {
    this.#ensureFree(5)
    this.#buffer[this.#length] = type
    this.#start = { buffer: this.#buffer, at: this.#length + 1, before: this.#written + 1 }
    this.#length += 5
  }

  #end(): void {
    const { buffer, at, before } = this.#start
    buffer.writeInt32BE(this.#written - before, at)
  }

  #int16(value: number): void {
    this.#ensureFree(2)
    this.#length = this.#buffer.writeInt16BE(value, this.#length)
  }

  /** An unsigned 16-bit number. */
  #count(value: number): void {
    this.#ensureFree(2)
    this.#length = this.#buffer.writeUInt16BE(value, this.#length)
  }

  #int32(value: number): void {
    this.#ensureFree(4)
    this.#length = this.#buffer.writeInt32BE(value, this.#length)
  }

  #text(text: string): void {
    const bytes = Buffer.byteLength(text)
    this.#ensureFree(bytes + 1)
    this.#length += this.#buffer.write(text, this.#length)
    this.#buffer[this.#length++] = 0
  }

  #parameter(value: Parameter): void {
    if (value === null) this.#int32(-1)
    else if (typeof value === 'string') {
      const bytes = Buffer.byteLength(value)
      this.#int32(bytes)
      this.#ensureFree(bytes)
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
      this.#ensureFree(piece.length)
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

  /**
   * Bind to the unnamed portal. Results have these formats (0 text, 1 binary); an empty list means that all are text.
   */
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
    this.#ensureFree(1)
    this.#buffer[this.#length++] = 0x50
    this.#text('')
    this.#end()
  }

  /** Execute of the unnamed portal; 0 means all rows. */
  execute(maximumRows = 0): void {
    this.#begin(0x45)
    this.#text('')
    this.#int32(maximumRows)
    this.#end()
  }

  /** Close of a prepared statement. */
  close(name: string): void {
    this.#begin(0x43)
    this.#ensureFree(1)
    this.#buffer[this.#length++] = 0x53
    this.#text(name)
    this.#end()
  }

  /** Flush: Postgres sends its pending results, and the transaction continues. */
  flush(): void {
    this.#begin(0x48)
    this.#end()
  }

  sync(): void {
    this.#begin(0x53)
    this.#end()
  }

  /** Terminate. */
  terminate(): void {
    this.#begin(0x58)
    this.#end()
  }

  /** Returns all bytes since the last call. The caller must send them in this order. */
  take(): readonly Buffer[] {
    const taken = [...this.#sealed, this.#buffer.subarray(this.#from, this.#length)]
    this.#sealed = []
    this.#sealedBytes = 0
    // The socket may still use the buffer, so the next batch follows in it or gets a new buffer. A large buffer is not
    // kept for small batches.
    const isSpent = this.#buffer.length - this.#length < leastFreeBytes || this.#buffer.length > slabBytes
    if (isSpent) this.#buffer = Buffer.allocUnsafe(slabBytes)
    this.#from = isSpent ? 0 : this.#length
    this.#length = this.#from
    return taken
  }
}

/** Receives each message: its type, and the position of its content in the buffer. */
type MessageHandler = (type: number, buffer: Buffer, start: number, end: number) => void

/** Receives rows as they arrive. Each part of a large last cell is in memory only while it is passed on. */
export type RowSink = {
  /** Whether it only receives rows that are too large for one read. The other rows are in the run's result. */
  readonly isForLarge: boolean
  /** A row starts: `cells` are all its cells except the last, `lastLength` is the length of the last cell in bytes. */
  begin(cells: readonly (Buffer | null)[], lastLength: number): void
  /** The next part of the last cell. */
  push(part: Buffer): void
  /** All bytes received so far have been passed on. */
  flush(): void
}

const dataRowType = 0x44
/** The length of a message includes itself. */
const leastLength = 4

/**
 * Splits a stream of bytes into messages. A large message is assembled in one buffer of its size, so that it is in
 * memory only once. If it is a row for a sink, it is passed on in parts.
 */
export class MessageReader {
  readonly #handle: MessageHandler
  readonly #admits: (bytes: number) => boolean
  readonly #sink: () => RowSink | undefined
  /** The row that is being passed on, and its remaining bytes. */
  #through: { sink: RowSink; remaining: number } | undefined
  /** True after a message that was malformed or not admitted. Then nothing more is read. */
  #isOver = false
  #rest: Buffer | undefined
  /** A partly received message, and its length so far. */
  #large: { buffer: Buffer; filled: number } | undefined

  /** `admits` is called before a message is assembled. `sink` decides whether the message is passed on in parts. */
  constructor(
    handle: MessageHandler,
    admits: (bytes: number) => boolean = () => true,
    sink: () => RowSink | undefined = () => undefined,
  ) {
    this.#handle = handle
    this.#admits = admits
    this.#sink = sink
  }

  /** @throws ProtocolError, and every error of the callbacks */
  push(chunk: Buffer): void {
    if (this.#isOver) return
    try {
      this.#read(chunk)
    } catch (error) {
      this.#isOver = true
      throw error
    }
  }

  #read(chunk: Buffer): void {
    let at = 0
    if (this.#through !== undefined) {
      at = Math.min(chunk.length, this.#through.remaining)
      this.#through.remaining -= at
      this.#through.sink.push(chunk.subarray(0, at))
      if (this.#through.remaining > 0) return
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
      const length = data.readInt32BE(at + 1)
      if (length < leastLength) throw new ProtocolError(`the length is ${length}`)
      const end = at + 1 + length
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

  /** The start of a row of `rowBytes` bytes; waits until all its cells but the last have arrived. */
  #begin(sink: RowSink, data: Buffer, rowBytes: number): void {
    const head = rowHead(data, 5, rowBytes)
    if (head === undefined) {
      this.#rest = data
      return
    }
    sink.begin(head.cells, head.lastLength)
    this.#through = { sink, remaining: rowBytes - data.length }
    sink.push(data.subarray(head.at))
  }
}

/** The length of the cell at `at`. @throws ProtocolError if the message ends before it */
function lengthAt(buffer: Buffer, at: number, end: number): number {
  if (at + 4 > end) throw new ProtocolError('it contains fewer values than its count')
  return buffer.readInt32BE(at)
}

/** The end of a cell; `at` for null (-1). @throws ProtocolError if the message ends before it */
function cellEnd(at: number, length: number, end: number): number {
  if (length < -1 || at + length > end) throw new ProtocolError(`a value of ${length} bytes exceeds its row`)
  return at + Math.max(0, length)
}

/** Returns the number of values or columns. Each needs at least `leastBytes` bytes. @throws ProtocolError */
function countAt(buffer: Buffer, start: number, end: number, leastBytes: number): number {
  const count = start + 2 > end ? -1 : buffer.readInt16BE(start)
  if (count < 0 || start + 2 + count * leastBytes > end) throw new ProtocolError(`it has fewer than ${count} values`)
  return count
}

/**
 * All cells except the last of a DataRow, with the length (-1: null) and position of the last cell. Undefined if the
 * buffer ends before the last cell. `end` is the end of the message. @throws ProtocolError
 */
export function rowHead(
  buffer: Buffer,
  start: number,
  end: number,
): { cells: (Buffer | null)[]; lastLength: number; at: number } | undefined {
  const cells: (Buffer | null)[] = []
  let at = start + 2
  if (at > buffer.length && at <= end) return undefined
  for (let remaining = countAt(buffer, start, end, 4); remaining > 0; remaining--) {
    if (at + 4 > buffer.length && at + 4 <= end) return undefined
    const length = lengthAt(buffer, at, end)
    at += 4
    const close = cellEnd(at, length, end)
    if (remaining === 1) {
      if (close !== end) throw new ProtocolError('it has bytes after its last value')
      return { cells, lastLength: length, at }
    }
    if (close > buffer.length) return undefined
    cells.push(length === -1 ? null : buffer.subarray(at, close))
    at = close
  }
  if (at !== end) throw new ProtocolError('it has bytes although its count is 0')
  return { cells, lastLength: -1, at }
}

/** The cells of a DataRow, as slices of its buffer. @throws ProtocolError */
export function dataRow(buffer: Buffer, start: number, end: number): (Buffer | null)[] {
  const count = countAt(buffer, start, end, 4)
  const cells: (Buffer | null)[] = []
  let at = start + 2
  for (let index = 0; index < count; index++) {
    const length = lengthAt(buffer, at, end)
    const close = cellEnd(at + 4, length, end)
    cells.push(length === -1 ? null : buffer.subarray(at + 4, close))
    at = close
  }
  return cells
}

/**
 * The cells of a DataRow as text. Most rows are ASCII and are decoded in one call, since each buffer and decoder call
 * costs more than the text. @throws ProtocolError
 */
export function dataRowText(buffer: Buffer, start: number, end: number): (string | null)[] {
  let at = start
  // Lengths from 128 on and null also contain such bytes.
  while (at < end && (buffer[at] ?? 0) < 0x80) at++
  const text = at === end ? buffer.toString('latin1', start, end) : undefined
  const count = countAt(buffer, start, end, 4)
  const cells: (string | null)[] = []
  at = start + 2
  for (let index = 0; index < count; index++) {
    const length = lengthAt(buffer, at, end)
    at += 4
    const close = cellEnd(at, length, end)
    if (length === -1) cells.push(null)
    else cells.push(text === undefined ? buffer.toString('utf8', at, close) : text.slice(at - start, close - start))
    at = close
  }
  return cells
}

export type Field = { readonly name: string; readonly type: number }

/** `table`: the oid of its table, 0 for an expression; `column`: its number in the table. */
type Described = Field & { readonly table: number; readonly column: number }

/** A column after its name: zero byte, table (4), column (2), type (4), size (2), modifier (4) and format (2). */
const columnBytes = 19

/** Names and types of the columns of a RowDescription. @throws ProtocolError */
export const rowDescription = (buffer: Buffer, start: number, end: number): Field[] =>
  describedColumns(buffer, start, end).map(({ name, type }) => ({ name, type }))

/** The columns of a RowDescription. @throws ProtocolError */
export function describedColumns(buffer: Buffer, start: number, end: number): Described[] {
  const fields: Described[] = []
  let at = start + 2
  for (let remaining = countAt(buffer, start, end, columnBytes); remaining > 0; remaining--) {
    const close = buffer.indexOf(0, at)
    if (close === -1 || close + columnBytes > end) throw new ProtocolError('it contains fewer columns than its count')
    fields.push({
      name: buffer.toString('utf8', at, close),
      type: buffer.readUInt32BE(close + 7),
      table: buffer.readUInt32BE(close + 1),
      column: buffer.readInt16BE(close + 5),
    })
    at = close + columnBytes
  }
  return fields
}

/** The number at the end of a command tag (`INSERT 0 5`, `UPDATE 5`); 0 if the tag has no number. */
export function affectedRows(buffer: Buffer, start: number, end: number): number {
  let count = 0
  let factor = 1
  for (let at = end - 2; at >= start; at--) {
    const digit = (buffer[at] ?? 0) - 0x30
    if (digit < 0 || digit > 9) break
    count += digit * factor
    factor *= 10
  }
  return count
}

/** An error repeats an invalid value of any size, so each field is truncated to this length. */
const maximumFieldBytes = 1_048_576

export function errorResponse(buffer: Buffer, start: number, end: number): DatabaseError {
  const fields = new Map<string, string>()
  for (let at = start; at < end && buffer[at] !== 0; ) {
    const close = buffer.indexOf(0, at + 1)
    if (close === -1 || close >= end) break
    const fieldEnd = Math.min(close, at + 1 + maximumFieldBytes)
    fields.set(String.fromCharCode(buffer[at] ?? 0), buffer.toString('utf8', at + 1, fieldEnd))
    at = close + 1
  }
  return new DatabaseError(fields)
}
