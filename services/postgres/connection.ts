/**
 * One connection to Postgres. `pg` makes it (TLS, authentication); from then on the bytes are ours: a request's statements go out together with one Sync, and
 * come back in one go, the cells of the rows as bytes that nobody has decoded. Short ones of several requests may be under way at once, one behind the other.
 */
import type { Socket } from 'node:net'
import type pg from 'pg'
import type { Address } from './address.ts'
import { type Backend, cancel } from './cancel.ts'
import { connect } from './connect.ts'
import { ConnectionFailure, type DatabaseError, Displaced } from './errors.ts'
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
import { type Changes, PreparedStatements } from './prepared.ts'

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
  readonly changes: Changes
  readonly affected: number[]
  readonly fields: (readonly Field[])[]
  /** Of rows, that may still come. */
  bytesLeft: number
  step: number
  error: DatabaseError | undefined
  /** In milliseconds, as far as that is known; undefined of one that has the connection to itself. */
  readonly expectedMs: number | undefined
  /** When it became the first of those that are under way, and whether it was so from the beginning. */
  since: number
  readonly wasFirst: boolean
  /** Nobody waits for what comes of it. */
  isGivenUp: boolean
  resolve(taken: Taken): void
  reject(error: Error): void
}

/** What a run has come to, and how long Postgres took, in milliseconds; undefined where it stood behind others, whose answers come with its own. */
export type Taken = { readonly rows: Rows; readonly tookMs: number | undefined }

/** What of `pg`'s client is used that its types do not name. */
type Insides = Backend & { connection: { stream: Socket } }

/** So many that share a connection may be under way at once, and so long may Postgres be expected to take for all of them. */
const maximumSharing = 8
const maximumSharingMs = 0.5
/** For so long those that share it keep a connection from others. */
const patienceMs = 5
const lookMs = 10
/** A cancellation that comes before its query has begun is lost. */
const cancelAgainMs = 500
/** Rows of one that shares: what is larger is for a connection of its own. */
const maximumSharedBytes = 262_144
/** Errors and notices repeat values, and are never rows. */
const largestOtherMessage = 1_048_576
/** A statement is not what was prepared under its name: a function has deallocated or prepared some, or what it depends on has changed. */
const lostStatements = new Set(['26000', '42P05', '08P01', '0A000'])

type Sharing = {
  readonly since: number
  readonly onFree: () => void
  readonly slowMs: number
  isOver: boolean
}

export class Connection {
  readonly openedAt: number
  readonly #socket: Socket
  readonly #insides: Insides
  readonly #writer = new MessageWriter()
  readonly #prepared = new PreparedStatements()
  #isLost = false
  readonly #onEnd: (connection: Connection) => void
  /** What is under way: the first runs, and those behind it share the connection with it. */
  readonly #queue: Running[] = []
  /** Of those that share it, what goes out together at the end of this turn. */
  readonly #unsent: Buffer[] = []
  #watch: NodeJS.Timeout | undefined
  /** What runs is being cancelled, and so would be whatever came after it. */
  #isLeft = false
  /** Since when it is shared, what is called once all of that has ended, and whether nobody is to join any more. */
  #sharing: Sharing | undefined
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
    return this.#queue.length === 0 && this.transaction === 'idle' && !this.#isGone
  }

  /** Nothing is to begin here any more. */
  get #isGone(): boolean {
    return this.#ended !== undefined || this.#isLost || this.#isLeft
  }

  get #running(): Running | undefined {
    return this.#queue[0]
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
    if (this.#queue.length > 0) return Promise.reject(new Error('a connection runs one request at a time'))
    return this.#begin(steps, prepared, maximumBytes, undefined).then(({ rows }) => rows)
  }

  /** Whether what Postgres takes so long for may run behind what shares the connection already; where somebody waits for it as a whole, only for a while. */
  hasRoomFor(expectedMs: number, isWaitedFor: boolean): boolean {
    if (this.#sharing === undefined || this.#sharing.isOver) return false
    if (this.#isGone || this.#queue.length >= maximumSharing) return false
    if (isWaitedFor && performance.now() - this.#sharing.since > patienceMs) return false
    return this.#queue.reduce((sum, one) => sum + (one.expectedMs ?? 0), expectedMs) <= maximumSharingMs
  }

  /** From now on several may run here, one behind the other, and go elsewhere where one before them takes longer than `slowMs`. `onFree` is called once all have ended. */
  share(onFree: () => void, slowMs: number): void {
    this.#sharing = { since: performance.now(), onFree, slowMs, isOver: false }
  }

  /**
   * Runs statements as `run` does, behind others whose connection this is as well. Where the signal is aborted, it throws what that says, and stops what it runs once nobody waits behind it.
   * @throws Displaced where it is better run elsewhere: those before it took long, or took the connection with them, or its rows are many
   */
  async runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    if (signal.aborted) {
      if (this.#queue.length === 0) this.#freed()
      throw signal.reason
    }
    const taken = this.#begin(steps, prepared, maximumSharedBytes, expectedMs)
    const own = this.#queue.at(-1)
    const giveUp = () => own !== undefined && this.#giveUp(own, signal.reason)
    signal.addEventListener('abort', giveUp)
    try {
      return await taken
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  #begin(
    steps: readonly Step[],
    prepared: boolean,
    maximumBytes: number,
    expectedMs: number | undefined,
  ): Promise<Taken> {
    if (this.#ended !== undefined) return Promise.reject(new ConnectionFailure(this.#ended.message))
    const changes = this.#prepared.begin(this.#writer)
    try {
      this.#write(steps, prepared, changes)
    } catch (error) {
      // Half of a request must not go out before the next one.
      this.#writer.take()
      this.#prepared.end(changes)
      if (this.#queue.length === 0) this.#freed()
      return Promise.reject(error)
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({
        steps,
        results: steps.map(() => []),
        changes,
        affected: [],
        fields: [],
        bytesLeft: maximumBytes,
        step: 0,
        error: undefined,
        expectedMs,
        since: performance.now(),
        wasFirst: this.#queue.length === 0,
        isGivenUp: false,
        resolve,
        reject,
      })
      if (expectedMs === undefined) this.#send(this.#writer.take())
      else this.#sendLater(this.#writer.take())
    })
  }

  /** What comes in one turn goes out in one write: that, and Postgres waking up for it, is most of what something short costs. */
  #sendLater(pieces: readonly Buffer[]): void {
    if (this.#unsent.length === 0) setImmediate(() => this.#send(this.#unsent.splice(0)))
    this.#unsent.push(...pieces)
    if (this.#queue.length > 1) this.#watch ??= setTimeout(() => this.#look(), lookMs)
  }

  /** Nobody is to wait long behind somebody else. */
  #look(): void {
    this.#watch = undefined
    const [first, ...behind] = this.#queue
    if (first === undefined || (behind.length === 0 && !first.isGivenUp)) return
    const isSlow = performance.now() - first.since > (this.#sharing?.slowMs ?? 0)
    if (isSlow) this.#displace(behind)
    if (isSlow && first.isGivenUp) this.#stop()
    this.#watch = setTimeout(() => this.#look(), isSlow ? cancelAgainMs : lookMs)
  }

  /** They run all the same, once it is their turn: what has been sent cannot be taken back, and what is short does no harm. */
  #displace(behind: readonly Running[]): void {
    if (this.#sharing !== undefined) this.#sharing.isOver = true
    for (const one of behind) {
      one.isGivenUp = true
      one.reject(new Displaced())
    }
  }

  #stop(): void {
    this.#isLeft = true
    this.cancel()
  }

  #giveUp(run: Running, reason: Error): void {
    run.isGivenUp = true
    run.reject(reason)
    const [first, ...behind] = this.#queue
    if (run !== first || behind.some(one => !one.isGivenUp)) return
    this.#stop()
    this.#watch ??= setTimeout(() => this.#look(), cancelAgainMs)
  }

  #send(pieces: readonly Buffer[]): void {
    if (this.#ended !== undefined) return
    const [only] = pieces
    if (only !== undefined && pieces.length === 1) {
      this.#socket.write(only)
      return
    }
    this.#socket.cork()
    for (const piece of pieces) this.#socket.write(piece)
    this.#socket.uncork()
  }

  #write(steps: readonly Step[], prepared: boolean, changes: Changes): void {
    for (const { text, values, formats = [], isUnique, isDescribed, maximumRows = 0 } of steps) {
      const name = this.#prepared.use(text, prepared && !isUnique, this.#writer, changes)
      this.#writer.bind(name, values, formats)
      if (isDescribed) this.#writer.describe()
      this.#writer.execute(maximumRows)
    }
    this.#writer.sync()
  }

  #message(type: number, buffer: Buffer, start: number, end: number): void {
    const running = this.#running
    if (running === undefined) return
    switch (type) {
      case 0x31: // 1, ParseComplete
        this.#prepared.prepared(running.changes)
        return
      case 0x33: // 3, CloseComplete
        this.#prepared.closed(running.changes)
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
        this.#finish(running)
      }
    }
  }

  #finish(running: Running): void {
    const now = performance.now()
    this.#queue.shift()
    this.#prepared.end(running.changes)
    this.affected = running.affected
    this.fields = running.fields
    const [next] = this.#queue
    if (next !== undefined) next.since = now
    const { error } = running
    const isLost = error !== undefined && lostStatements.has(error.sqlState)
    this.#isLost ||= isLost
    const tookMs = running.wasFirst ? now - running.since : undefined
    if (error === undefined) running.resolve({ rows: running.results, tookMs })
    // Somebody else's function may have taken what it had prepared.
    else running.reject(isLost && running.expectedMs !== undefined ? new Displaced() : error)
    if (this.#isLeft) this.close()
    else if (next === undefined) this.#freed()
  }

  #freed(): void {
    const sharing = this.#sharing
    this.#sharing = undefined
    sharing?.onFree()
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
    this.#queue.shift()
    this.isCut = true
    this.affected = running.affected
    this.fields = running.fields
    for (const one of this.#queue.splice(0)) one.reject(new Displaced())
    this.#end(new Error('the rows were too large'))
    if (running.expectedMs === undefined) running.resolve({ rows: running.results, tookMs: undefined })
    else running.reject(new Displaced())
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    clearTimeout(this.#watch)
    this.#socket.destroy()
    const [first, ...behind] = this.#queue.splice(0)
    // Postgres says why before it hangs up (57P01 and its like).
    first?.reject(first.error ?? new ConnectionFailure(error.message))
    for (const one of behind) one.reject(new Displaced())
    this.#onEnd(this)
  }

  /** Asks Postgres to stop what runs on this connection. */
  cancel(): void {
    cancel(this.#insides)
  }

  /** Ends it in peace where it is idle. */
  close(): void {
    if (this.#ended !== undefined) return
    if (this.#queue.length === 0) this.#socket.write(Buffer.from([0x58, 0, 0, 0, 4]))
    this.#end(new Error('the connection has been closed'))
  }
}
