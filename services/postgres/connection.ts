/**
 * One connection to Postgres. `pg` makes it (TLS, authentication); from then on the bytes are ours: a request's statements go out together with one Sync, and
 * come back in one go, the cells of the rows as bytes that nobody has decoded. Short ones of several requests may be under way at once, one behind the other.
 */
import type { Socket } from 'node:net'
import type pg from 'pg'
import type { Address } from './address.ts'
import { type Backend, cancel } from './cancel.ts'
import { connect } from './connect.ts'
import { ConnectionFailure } from './errors.ts'
import { type Field, joinedPiece, MessageReader, MessageWriter, type RowSink } from './messages.ts'
import { type Changes, PreparedStatements } from './prepared.ts'
import { type Rows, Run, type Step, type Taken } from './run.ts'
import { Sharing } from './sharing.ts'
import type { TextRows } from './text-rows.ts'

/** What of `pg`'s client is used that its types do not name. */
type Insides = Backend & { connection: { stream: Socket } }

/** The type of ReadyForQuery. */
const readyForQuery = 0x5a
const lookMs = 10
/** A cancellation that comes before its query has begun is lost. */
const cancelAgainMs = 500
/** Rows of one that shares: what is larger is for a connection of its own. */
export const maximumSharedBytes = 262_144
export class Connection {
  readonly openedAt: number
  readonly #socket: Socket
  readonly #insides: Insides
  readonly #writer = new MessageWriter()
  readonly #prepared = new PreparedStatements()
  #isLost = false
  readonly #onEnd: (connection: Connection) => void
  /** What is under way: the first runs, and those behind it share the connection with it. */
  readonly #queue: Run[] = []
  /** Of those that share it, what goes out together at the end of this turn. */
  readonly #unsent: Buffer[] = []
  #watch: NodeJS.Timeout | undefined
  /** What runs is being cancelled, and so would be whatever came after it. */
  #isLeft = false
  #sharing: Sharing | undefined
  #ended: Error | undefined
  /** Of the last run, how many rows each statement has returned or written, by its command tag. */
  affected: readonly number[] = []
  /** Of the last run, the columns of each statement that was to be described. */
  fields: readonly (readonly Field[])[] = []
  #texts: readonly TextRows[] = []
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

  /** Of the last run, the rows of each statement whose rows are text. They are handed over: an idle connection holds none. */
  takeTexts(): readonly TextRows[] {
    const texts = this.#texts
    this.#texts = []
    return texts
  }

  get isUsable(): boolean {
    return this.#queue.length === 0 && this.transaction === 'idle' && !this.#isGone
  }

  /** Nothing is to begin here any more. */
  get #isGone(): boolean {
    return this.#ended !== undefined || this.#isLost || this.#isLeft
  }

  get #running(): Run | undefined {
    return this.#queue[0]
  }

  /** Of the step whose rows come. */
  get #sink(): RowSink | undefined {
    return this.#running?.sink
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
    return !this.#isGone && (this.#sharing?.hasRoomFor(expectedMs, this.#queue, isWaitedFor) ?? false)
  }

  /**
   * From now on several may run here, one behind the other, and go elsewhere where one before them takes longer than `slowMs` or leaves a transaction open. `onFree` is called once all have
   * ended, or the connection has.
   */
  share(onFree: () => void, slowMs: number): void {
    this.#sharing = new Sharing(onFree, slowMs)
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
    if (this.#ended !== undefined) {
      this.#freed()
      return Promise.reject(new ConnectionFailure(this.#ended.message))
    }
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
    const isFirst = this.#queue.length === 0
    const run = new Run({ steps, prepared: this.#prepared, changes, maximumBytes, expectedMs, isFirst })
    this.#queue.push(run)
    if (expectedMs === undefined) this.#send(this.#writer.take())
    else this.#sendLater(this.#writer.take())
    return run.taken
  }

  /** What comes in one turn goes out in one write: that, and Postgres waking up for it, is most of what something short costs. */
  #sendLater(pieces: readonly Buffer[]): void {
    if (this.#unsent.length === 0) setImmediate(() => this.#send(this.#unsent.splice(0)))
    for (const piece of pieces) {
      const last = this.#unsent.at(-1)
      const joined = last === undefined ? undefined : joinedPiece(last, piece)
      if (joined === undefined) this.#unsent.push(piece)
      else this.#unsent[this.#unsent.length - 1] = joined
    }
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
  #displace(behind: readonly Run[]): void {
    if (this.#sharing !== undefined) this.#sharing.isOver = true
    for (const one of behind) one.giveUp()
  }

  #stop(): void {
    this.#isLeft = true
    this.cancel()
  }

  #giveUp(run: Run, reason: Error): void {
    run.giveUp(reason)
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
    for (const { text, values, formats = [], isUnnamed, isDescribed, maximumRows = 0 } of steps) {
      const name = this.#prepared.use(text, prepared && !isUnnamed, this.#writer, changes)
      this.#writer.bind(name, values, formats)
      if (isDescribed) this.#writer.describe()
      this.#writer.execute(maximumRows)
    }
    this.#writer.sync()
  }

  #message(type: number, buffer: Buffer, start: number, end: number): void {
    const running = this.#running
    if (running === undefined) return
    if (type !== readyForQuery) {
      if (!running.take(type, buffer, start, end)) this.#cut(running)
      return
    }
    const status = buffer[start]
    this.transaction = status === 0x49 ? 'idle' : status === 0x54 ? 'open' : 'failed'
    this.#finish(running)
  }

  #finish(running: Run): void {
    const now = performance.now()
    this.#queue.shift()
    this.affected = running.affected
    this.fields = running.fields
    // A run that shares has its rows in its result: an idle connection holds none.
    this.#texts = running.expectedMs === undefined ? running.texts : []
    const [next] = this.#queue
    if (next !== undefined) next.since = now
    this.#isLost ||= running.hasLostStatement
    running.finish(now)
    // In a transaction that has failed, nothing behind runs until it is rolled back.
    if (this.transaction !== 'idle' && this.#sharing !== undefined) this.#displace(this.#queue)
    if (this.#isLeft) this.close()
    else if (next === undefined) this.#freed()
  }

  #freed(): void {
    const sharing = this.#sharing
    this.#sharing = undefined
    sharing?.onFree()
  }

  #admits(bytes: number): boolean {
    const running = this.#running
    if (running === undefined || running.admits(bytes)) return true
    this.#cut(running)
    return false
  }

  #cut(running: Run): void {
    this.#queue.shift()
    this.isCut = true
    this.affected = running.affected
    this.fields = running.fields
    this.#texts = running.texts
    for (const one of this.#queue.splice(0)) one.giveUp()
    this.#end(new Error('the rows were too large'))
    running.cut()
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    clearTimeout(this.#watch)
    this.#socket.destroy()
    const [first, ...behind] = this.#queue.splice(0)
    first?.lose(new ConnectionFailure(error.message))
    for (const one of behind) one.giveUp()
    this.#freed()
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
