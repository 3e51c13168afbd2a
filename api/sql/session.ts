/**
 * One connection to Postgres that runs the statements of one request. Rows are fetched from a portal, a limited number
 * at a time. While the client does not read, the session fetches nothing and does not read the socket. So a large
 * result does not need much memory.
 */
import type { Socket } from 'node:net'
import { type Backend, cancel } from '../../wire/cancel.ts'
import { dataRowText, MessageReader, MessageWriter } from '../../wire/messages.ts'
import type { Opened } from './connect.ts'
import { columnsOf, commandOf, type ErrorLine, errorLine, fieldsOf, type Line, noticeLine, ownError } from './lines.ts'

/** The number of rows in one fetch. */
const fetchRows = 1_000
/** The number of bytes that the session buffers for the client before it pauses the socket. */
const bufferedBytes = 131_072
/** The maximum length of a Postgres message in bytes. It is limited, because memory holds several copies of a row. */
const longestMessage = 1024 * 1024
const mostNotices = 1_000
/** How long the session waits for Postgres to close the connection, before it destroys the socket. */
const closeMs = 1_000
/**
 * The time between the time limit of a statement and the abort by the session. Postgres itself ends a statement at the
 * limit, unless the statement has changed the setting.
 */
const graceMs = 2_000

type Message =
  | Line
  | { readonly type: 'suspended' }
  | { readonly type: 'tag'; readonly tag: string }
  | { readonly type: 'ready'; readonly transaction: string }
  /** The connection cannot be used any more. */
  | { readonly type: 'broken'; readonly line: ErrorLine }

type Execution = {
  readonly text: string
  readonly parameters: readonly (string | null)[]
  readonly maximumRows: number
  readonly timeoutMs: number
  /** Added to error positions, which Postgres counts from the start of the statement. */
  readonly shift: number
}

/** A statement or the connection failed. No later statement runs. */
export class StatementFailure extends Error {
  override readonly name = 'StatementFailure'
  readonly line: ErrorLine
  constructor(line: ErrorLine) {
    super(line.message)
    this.line = line
  }
}

/** The client has disconnected. */
export const canceled = ownError('57014', 'canceled')
const copies = ownError('0A000', 'COPY with STDIN or STDOUT does not run here: use psql')
const tooLong = ownError(
  '54000',
  `a row or another message is longer than ${longestMessage} bytes: select less of a row, for example left(...)`,
)
const closed = ownError('08006', 'the connection to Postgres was closed')
const malformed = ownError('08P01', 'Postgres sent a malformed message: the connection was closed')
const leaves = ownError('25006', 'a read cannot end its transaction')

/**
 * A column alias in the statement of `begin()`. By this alias, api/queries excludes the statement from its response.
 */
export const snapshotName = 'espalier_snapshot'

const endsTransaction = /^(BEGIN|START|COMMIT|ROLLBACK|PREPARE TRANSACTION)/

/** The progress of the current statement. */
type Progress = {
  readonly execution: Execution
  readonly startedAt: number
  /** The number of rows still to fetch. It starts at `maximumRows + 1`, to detect further rows. */
  remaining: number
  taken: number
  tag: string | undefined
  failure: ErrorLine | undefined
  isSynced: boolean
}

export class Session {
  readonly #socket: Socket
  readonly #backend: Backend
  readonly #isReadOnly: boolean
  readonly #writer = new MessageWriter()
  #messages: Message[] = []
  #rows: (string | null)[][] = []
  #buffered = 0
  #notices = 0
  #shift = 0
  #resume: (() => void) | undefined
  #isClosed = false
  #isClosing = false
  #abortedWith: ErrorLine | undefined
  #transaction = 'I'
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>

  constructor({ socket, backend }: Opened, isReadOnly: boolean) {
    this.#socket = socket
    this.#backend = backend
    this.#isReadOnly = isReadOnly
    const reader = new MessageReader(
      (type, buffer, start, end) => this.#message(type, buffer, start, end),
      bytes => this.#admits(bytes),
    )
    socket.on('data', chunk => {
      // The server belongs to a tenant, so no bytes from it may end this process.
      try {
        reader.push(chunk)
      } catch {
        this.abort(malformed)
      }
      if (this.#buffered > bufferedBytes && this.#abortedWith === undefined) socket.pause()
      this.#resume?.()
    })
    socket.on('error', () => {})
    socket.on('end', () => socket.destroy())
    this.closed = new Promise(resolve =>
      socket.once('close', () => {
        this.#isClosed = true
        this.#resume?.()
        resolve()
      }),
    )
  }

  /** Whether a transaction is open. When the connection ends, Postgres rolls it back. */
  get isInTransaction(): boolean {
    return this.#transaction !== 'I'
  }

  /**
   * Begins the transaction of a read, and runs a query, which takes the snapshot. After that, Postgres refuses to make
   * the transaction READ WRITE. @throws StatementFailure
   */
  async begin(): Promise<void> {
    await this.command('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    await this.command(`SELECT pg_catalog.now() AS ${snapshotName}`)
  }

  /** Runs one of the API's own statements. @throws StatementFailure */
  async command(text: string): Promise<void> {
    const lines = this.#lines({ text, parameters: [], maximumRows: 1, timeoutMs: 10_000, shift: 0 })
    for await (const _ of lines) void _
  }

  /**
   * Runs one statement. Postgres commits the statement unless a transaction is open. The last line is `complete`.
   * @throws StatementFailure
   */
  async *run(execution: Execution): AsyncGenerator<Line, void, void> {
    for await (const line of this.#lines(execution)) {
      // A second check, independent of `isRead` in split.ts: the read transaction must be open after each statement.
      if (line.type === 'complete' && this.#isReadOnly) this.#requireTransaction(line.command)
      yield line
    }
  }

  #requireTransaction(command: string): void {
    if (this.#transaction === 'T' && !endsTransaction.test(command)) return
    this.#socket.destroy()
    throw new StatementFailure(leaves)
  }

  /** Cancels the running statement and closes the connection. */
  abort(reason: ErrorLine = canceled): void {
    if (this.#isClosed || this.#isClosing || this.#abortedWith !== undefined) return
    this.#abortedWith = reason
    this.#messages = []
    this.#rows = []
    cancel(this.#backend)
    this.#socket.resume()
    this.#resume?.()
    const late = setTimeout(() => {
      // A cancel request that arrives before its statement has no effect.
      cancel(this.#backend)
      this.#socket.destroy()
    }, closeMs)
    this.#socket.once('close', () => clearTimeout(late))
  }

  /** Closes the connection. Postgres rolls back an open transaction. */
  close(): void {
    if (this.#isClosed || this.#isClosing) return
    this.#isClosing = true
    this.#writer.terminate()
    this.#send()
    this.#socket.end()
    this.#socket.resume()
    const late = setTimeout(() => this.#socket.destroy(), closeMs)
    this.#socket.once('close', () => clearTimeout(late))
  }

  async *#lines(execution: Execution): AsyncGenerator<Line, void, void> {
    const { timeoutMs, maximumRows } = execution
    const seconds = timeoutMs / 1_000
    const late = () =>
      this.abort(
        ownError(
          '57014',
          `canceled: the statement exceeded its time limit of ${seconds} s, which includes reading its rows`,
        ),
      )
    const timer = setTimeout(late, timeoutMs + graceMs)
    const progress = this.#start(execution)
    try {
      for (;;) {
        const message = await this.#next(progress)
        if (message.type === 'rows') {
          const free = Math.max(0, maximumRows - progress.taken)
          progress.taken += message.rows.length
          progress.remaining -= message.rows.length
          if (free > 0) yield { type: 'rows', rows: message.rows.slice(0, free) }
        } else if (message.type === 'ready') {
          this.#transaction = message.transaction
          if (progress.failure !== undefined) throw new StatementFailure(progress.failure)
          yield completeLine(progress)
          return
        } else if (message.type === 'columns' || message.type === 'notice') yield message
        else this.#continue(progress, message)
      }
    } finally {
      clearTimeout(timer)
    }
  }

  #start(execution: Execution): Progress {
    const { text, parameters, maximumRows, shift } = execution
    this.#shift = shift
    this.#notices = 0
    const remaining = maximumRows + 1
    this.#writer.parse('', text)
    this.#writer.bind('', parameters, [])
    this.#writer.describe()
    this.#writer.execute(Math.min(fetchRows, remaining))
    this.#writer.flush()
    this.#send()
    const startedAt = performance.now()
    return { execution, startedAt, remaining, taken: 0, tag: undefined, failure: undefined, isSynced: false }
  }

  /** Fetches more rows, or ends the statement. */
  #continue(progress: Progress, message: Message): void {
    if (message.type === 'tag') progress.tag = message.tag
    if (message.type === 'error') progress.failure ??= message
    if (progress.isSynced) return
    if (message.type === 'suspended' && progress.remaining > 0) {
      this.#writer.execute(Math.min(fetchRows, progress.remaining))
      this.#writer.flush()
    } else {
      progress.isSynced = true
      this.#writer.sync()
    }
    this.#send()
  }

  /** Returns the next message. Reads the socket only when there is no message. @throws StatementFailure */
  async #next({ failure }: Progress): Promise<Message> {
    for (;;) {
      if (this.#abortedWith !== undefined) throw new StatementFailure(this.#abortedWith)
      if (this.#messages.length === 0) this.#closeRows()
      const message = this.#messages.shift()
      if (message?.type === 'broken') {
        this.abort(message.line)
        throw new StatementFailure(message.line)
      }
      if (message !== undefined) return message
      if (this.#isClosed) throw new StatementFailure(failure ?? closed)
      this.#buffered = 0
      this.#socket.resume()
      await new Promise<void>(resolve => {
        this.#resume = resolve
      })
      this.#resume = undefined
    }
  }

  #send(): void {
    if (this.#isClosed) return
    for (const bytes of this.#writer.take()) this.#socket.write(bytes)
  }

  #admits(bytes: number): boolean {
    if (bytes > longestMessage) this.#push({ type: 'broken', line: tooLong })
    return bytes <= longestMessage
  }

  #closeRows(): void {
    if (this.#rows.length === 0) return
    this.#messages.push({ type: 'rows', rows: this.#rows })
    this.#rows = []
  }

  #push(message: Message): void {
    this.#closeRows()
    this.#messages.push(message)
  }

  #message(type: number, buffer: Buffer, start: number, end: number): void {
    if (this.#abortedWith !== undefined) {
      // Postgres has ended the statement.
      if (type === 0x45 || type === 0x5a) this.close()
      return
    }
    const message = this.#read(type, buffer, start, end)
    if (message !== undefined) this.#push(message)
  }

  #read(type: number, buffer: Buffer, start: number, end: number): Message | undefined {
    switch (type) {
      case 0x44: // D, DataRow
        this.#buffered += end - start
        this.#rows.push(dataRowText(buffer, start, end))
        return undefined
      case 0x54: // T, RowDescription
        return { type: 'columns', columns: columnsOf(buffer, start, end) }
      case 0x73: // s, PortalSuspended
        return { type: 'suspended' }
      case 0x43: // C, CommandComplete
        return { type: 'tag', tag: buffer.toString('utf8', start, end - 1) }
      case 0x49: // I, EmptyQueryResponse
        return { type: 'tag', tag: '' }
      case 0x5a: // Z, ReadyForQuery
        return { type: 'ready', transaction: buffer.toString('latin1', start, end) }
      case 0x45: // E, ErrorResponse
        return errorLine(fieldsOf(buffer, start, end), this.#shift)
      case 0x4e: // N, NoticeResponse
        this.#buffered += end - start
        this.#notices++
        return this.#notices <= mostNotices ? noticeLine(fieldsOf(buffer, start, end)) : undefined
      case 0x47: // G, CopyInResponse
      case 0x48: // H, CopyOutResponse
      case 0x57: // W, CopyBothResponse
        return { type: 'broken', line: copies }
      default:
        return undefined
    }
  }
}

function completeLine({ execution, startedAt, taken, tag }: Progress): Line {
  const { maximumRows, text } = execution
  const { command, rows } = commandOf(tag ?? (/[a-z]+/i.exec(text)?.[0].toUpperCase() || ''))
  const more = taken > maximumRows
  return {
    type: 'complete',
    command,
    // The number in the tag counts only the rows of the last fetch.
    row_count: taken > 0 ? Math.min(taken, maximumRows) : (rows ?? 0),
    ms: Math.round(performance.now() - startedAt),
    more,
  }
}
