/**
 * One connection to Postgres. `pg` makes it (TLS, authentication); from then on the bytes are ours: a request's statements go out together with one Sync, and
 * come back in one go, the cells of the rows as bytes that nobody has decoded.
 */
import { randomBytes } from 'node:crypto'
import { connect as connectSocket, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'
import type pg from 'pg'
import type { Address } from './address.ts'
import { connect } from './connect.ts'
import { ConnectionFailure, type DatabaseError } from './errors.ts'
import {
  affectedRows,
  dataRow,
  errorResponse,
  type Field,
  MessageReader,
  MessageWriter,
  type Parameter,
  type RowSink,
  rowDescription,
  rowHead,
} from './messages.ts'

export type Step = {
  readonly text: string
  readonly values: readonly Parameter[]
  /** Formats of the result's columns; none is all text. */
  readonly formats?: readonly number[]
  /** Not kept prepared, whatever else is: its text will not come again. */
  readonly isUnique?: true
  /** Says in `fields` which columns there are. */
  readonly isDescribed?: true
  /** The rest of its rows is never made. */
  readonly maximumRows?: number
  /** Takes its rows, or those that are large; they are none of the run's result then. */
  readonly sink?: RowSink
}
export type Row = readonly (Buffer | null)[]
/** Rows of each step, in order. */
export type Rows = readonly (readonly Row[])[]

type Running = {
  readonly steps: readonly Step[]
  readonly results: Row[][]
  /** Statements that have been sent to be prepared and are not confirmed. */
  readonly preparing: { text: string; name: string }[]
  readonly affected: number[]
  readonly fields: (readonly Field[])[]
  /** Of rows, that may still come. */
  bytesLeft: number
  step: number
  error: DatabaseError | undefined
  resolve(rows: Rows): void
  reject(error: Error): void
}

/** What of `pg`'s client is used that its types do not name. */
type Insides = {
  connection: { stream: Socket }
  processID: number
  secretKey: number | Buffer
  host: string
  port: number
  ssl: ConnectionOptions | false
}

/** Statements kept prepared on a connection; the one unused for longest makes room. */
const maximumPrepared = 300
/** And their text, in characters: what Postgres keeps of a statement takes some fifty times its length. */
const maximumPreparedText = 524_288
/** Errors and notices repeat values, and are never rows. */
const largestOtherMessage = 1_048_576
/** A statement is not what was prepared under its name: a function has deallocated or prepared some, or what it depends on has changed. */
const lostStatements = new Set(['26000', '42P05', '08P01', '0A000'])

export class Connection {
  readonly openedAt: number
  readonly #socket: Socket
  readonly #insides: Insides
  readonly #writer = new MessageWriter()
  readonly #prepared = new Map<string, string>()
  #preparedText = 0
  /** Names of statements that nothing uses any more, until Postgres has closed them: an error before that skips it, and the next run says it again. */
  readonly #surplus: string[] = []
  #isLost = false
  readonly #onEnd: (connection: Connection) => void
  /** Behind a pooler, connections come by the sessions of others: what one has prepared must have no name that another gives to something else. */
  readonly #prefix = `s${randomBytes(8).toString('hex')}_`
  #names = 0
  #running: Running | undefined
  #ended: Error | undefined
  /** Of the last run, how many rows each statement has returned or written, by its command tag. */
  affected: readonly number[] = []
  /** Of the last run, the columns of each statement that was to be described. */
  fields: readonly (readonly Field[])[] = []
  /** Whether the last run has ended, with the connection, because its rows were too large. */
  isCut = false
  /** As of the last ReadyForQuery: idle, in a transaction, or in one that has failed. */
  transaction: 'idle' | 'open' | 'failed' = 'idle'

  private constructor(client: pg.Client, now: number, onEnd: (connection: Connection) => void) {
    // The one boundary with pg's insides: version-pinned, and tested against it.
    this.#insides = client as unknown as Insides
    this.#socket = this.#insides.connection.stream
    this.openedAt = now
    this.#onEnd = onEnd
    const reader = new MessageReader(
      (type, buffer, start, end) => this.#message(type, buffer, start, end),
      bytes => this.#admits(bytes),
      () => this.#sink,
    )
    const socket = this.#socket
    for (const event of ['data', 'end', 'error', 'close']) socket.removeAllListeners(event)
    socket.on('data', chunk => {
      reader.push(chunk)
      this.#sink?.flush()
    })
    socket.on('error', error => this.#end(error))
    socket.on('close', () => this.#end(new Error('the connection has been closed')))
    socket.on('end', () => socket.destroy())
  }

  /** @throws ConnectionFailure */
  static async open(address: Address, now: () => number, onEnd: (connection: Connection) => void): Promise<Connection> {
    return new Connection(await connect(address), now(), onEnd)
  }

  get isUsable(): boolean {
    return this.#ended === undefined && this.#running === undefined && this.transaction === 'idle' && !this.#isLost
  }

  /** Of the step whose rows come. */
  get #sink(): RowSink | undefined {
    return this.#running?.steps[this.#running.step]?.sink
  }

  /** Reads no more until `resume`: Postgres waits once what lies between is full. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /**
   * Runs statements one after the other in one round trip: as one transaction, unless they begin and end one themselves. `prepared` keeps them
   * for the next time. Where the rows come to more than `maximumBytes`, the result is those before, `isCut`, and the connection ends: what has not been
   * committed by then never is.
   * @throws DatabaseError of the first that fails, after which none of the others has run; ConnectionFailure
   */
  run(steps: readonly Step[], prepared: boolean, maximumBytes = Number.POSITIVE_INFINITY): Promise<Rows> {
    if (this.#ended !== undefined) return Promise.reject(new ConnectionFailure(this.#ended.message))
    if (this.#running !== undefined) return Promise.reject(new Error('a connection runs one request at a time'))
    const preparing: Running['preparing'] = []
    try {
      this.#write(steps, prepared, preparing)
    } catch (error) {
      // Half of a request must not go out before the next one.
      this.#writer.take()
      return Promise.reject(error)
    }
    return new Promise((resolve, reject) => {
      this.#running = {
        steps,
        results: steps.map(() => []),
        preparing,
        affected: [],
        fields: [],
        bytesLeft: maximumBytes,
        step: 0,
        error: undefined,
        resolve,
        reject,
      }
      this.#send(this.#writer.take())
    })
  }

  #send(pieces: readonly Buffer[]): void {
    const [only] = pieces
    if (only !== undefined && pieces.length === 1) {
      this.#socket.write(only)
      return
    }
    this.#socket.cork()
    for (const piece of pieces) this.#socket.write(piece)
    this.#socket.uncork()
  }

  #write(steps: readonly Step[], prepared: boolean, preparing: Running['preparing']): void {
    for (const name of this.#surplus) this.#writer.close(name)
    for (const { text, values, formats = [], isUnique, isDescribed, maximumRows = 0 } of steps) {
      const isKept = prepared && !isUnique && text.length <= maximumPreparedText
      this.#writer.bind(isKept ? this.#statement(text, preparing) : this.#unnamed(text, preparing), values, formats)
      if (isDescribed) this.#writer.describe()
      this.#writer.execute(maximumRows)
    }
    this.#writer.sync()
  }

  #unnamed(text: string, preparing: Running['preparing']): string {
    this.#writer.parse('', text)
    preparing.push({ text, name: '' })
    return ''
  }

  #statement(text: string, preparing: Running['preparing']): string {
    const known = this.#prepared.get(text)
    if (known !== undefined) {
      // The last one used stands last.
      this.#prepared.delete(text)
      this.#prepared.set(text, known)
      return known
    }
    for (const [oldest, unused] of this.#prepared) {
      if (this.#prepared.size < maximumPrepared && this.#preparedText + text.length <= maximumPreparedText) break
      this.#prepared.delete(oldest)
      this.#preparedText -= oldest.length
      this.#surplus.push(unused)
      this.#writer.close(unused)
    }
    const name = `${this.#prefix}${++this.#names}`
    this.#writer.parse(name, text)
    preparing.push({ text, name })
    return name
  }

  #message(type: number, buffer: Buffer, start: number, end: number): void {
    const running = this.#running
    if (running === undefined) return
    switch (type) {
      case 0x31: {
        // 1, ParseComplete
        const made = running.preparing.shift()
        if (made === undefined || made.name === '') return
        if (this.#prepared.has(made.text)) this.#surplus.push(made.name)
        else {
          this.#prepared.set(made.text, made.name)
          this.#preparedText += made.text.length
        }
        return
      }
      case 0x33: // 3, CloseComplete
        this.#surplus.shift()
        return
      case 0x44: // D, DataRow
        this.#row(running, buffer, start, end)
        return
      case 0x54: // T, RowDescription
        running.fields[running.step] = rowDescription(buffer, start)
        return
      case 0x43: // C, CommandComplete
      case 0x49: // I, EmptyQueryResponse
      case 0x73: // s, PortalSuspended
        running.affected.push(type === 0x43 ? affectedRows(buffer, start, end) : 0)
        running.step++
        return
      case 0x45: // E, ErrorResponse
        running.error ??= errorResponse(buffer, start, end)
        return
      case 0x5a: {
        // Z, ReadyForQuery
        const status = buffer[start]
        this.transaction = status === 0x49 ? 'idle' : status === 0x54 ? 'open' : 'failed'
        this.#running = undefined
        this.affected = running.affected
        this.fields = running.fields
        if (running.error === undefined) running.resolve(running.results)
        else {
          this.#isLost ||= lostStatements.has(running.error.sqlState)
          running.reject(running.error)
        }
      }
    }
  }

  #row(running: Running, buffer: Buffer, start: number, end: number): void {
    const sink = running.steps[running.step]?.sink
    running.bytesLeft -= end - start
    if (running.bytesLeft < 0) this.#cut(running)
    else if (sink === undefined || sink.isForLarge) running.results[running.step]?.push(dataRow(buffer, start))
    else {
      const head = rowHead(buffer, start)
      sink.begin(head?.cells ?? [], head?.lastLength ?? -1)
      if (head !== undefined && head.lastLength > 0) sink.push(buffer.subarray(head.at, end))
    }
  }

  /** Whether a message is to be put together that has not come whole; a row of a gigabyte would be in memory before it is known to be too much. */
  #admits(bytes: number): boolean {
    const running = this.#running
    if (running === undefined || bytes <= running.bytesLeft + largestOtherMessage) return true
    this.#cut(running)
    return false
  }

  #cut(running: Running): void {
    this.#running = undefined
    this.isCut = true
    this.affected = running.affected
    this.fields = running.fields
    this.#end(new Error('the rows were too large'))
    running.resolve(running.results)
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    this.#socket.destroy()
    const running = this.#running
    this.#running = undefined
    // Postgres says why before it hangs up (57P01 and its like).
    running?.reject(running.error ?? new ConnectionFailure(error.message))
    this.#onEnd(this)
  }

  /** Asks Postgres to stop what runs on this connection (manual section 55.2.8). It may come too late; nobody is told. */
  cancel(): void {
    const { processID, secretKey, host, port, ssl } = this.#insides
    const key = Buffer.isBuffer(secretKey) ? secretKey : Buffer.alloc(4)
    if (typeof secretKey === 'number') key.writeInt32BE(secretKey | 0)
    const request = Buffer.alloc(12 + key.length)
    request.writeInt32BE(request.length, 0)
    request.writeInt32BE(80877102, 4)
    request.writeInt32BE(processID, 8)
    key.copy(request, 12)
    const isPath = host.startsWith('/')
    const socket = isPath ? connectSocket({ path: `${host}/.s.PGSQL.${port}` }) : connectSocket({ host, port })
    socket.setTimeout(5_000, () => socket.destroy())
    socket.on('error', () => {})
    if (ssl === false) {
      socket.end(request)
      return
    }
    // The key is for the server alone, whose certificate is judged as that of the connection was.
    const encryption = Buffer.alloc(8)
    encryption.writeInt32BE(8, 0)
    encryption.writeInt32BE(80877103, 4)
    socket.write(encryption)
    socket.once('data', answer => {
      if (answer[0] !== 0x53) {
        socket.destroy()
        return
      }
      const secure = connectTls({ ...ssl, socket })
      secure.on('error', () => {})
      secure.end(request)
    })
  }

  /** Ends it in peace where it is idle. */
  close(): void {
    if (this.#ended !== undefined) return
    if (this.#running === undefined) this.#socket.write(Buffer.from([0x58, 0, 0, 0, 4]))
    this.#end(new Error('the connection has been closed'))
  }
}
