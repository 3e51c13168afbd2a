/**
 * One connection to Postgres. `pg` opens it (TLS, authentication). Afterwards this module handles the bytes. It sends a
 * request's statements together with one Sync, and the result contains the cells as undecoded bytes. It can pipeline
 * short runs of several requests.
 */
import type { Socket } from 'node:net'
import type pg from 'pg'
import { type Backend, cancel } from '../../wire/cancel.ts'
import { ProtocolError } from '../../wire/errors.ts'
import { type Field, joinedPiece, MessageReader, MessageWriter, type RowSink } from '../../wire/messages.ts'
import type { Address } from './address.ts'
import { connect } from './connect.ts'
import { ConnectionFailure } from './errors.ts'
import { type Changes, PreparedStatements } from './prepared.ts'
import { type Rows, Run, type Step, type Taken } from './run.ts'
import { SharedRuns } from './shared-runs.ts'
import type { TextRows } from './text-rows.ts'

/** The part of `pg`'s client that its types do not declare. */
type Insides = Backend & { connection: { stream: Socket } }

/** The message type of ReadyForQuery. */
const readyForQuery = 0x5a
const checkIntervalMs = 10
/** A cancel request that arrives before its query is lost. */
const cancelAgainMs = 500
/** The row limit of a run that shares the connection. Larger results need a connection of their own. */
export const maximumSharedBytes = 262_144
export class Connection {
  readonly openedAt: number
  readonly #socket: Socket
  readonly #insides: Insides
  readonly #writer = new MessageWriter()
  readonly #prepared = new PreparedStatements()
  #isLost = false
  readonly #onEnd: (connection: Connection) => void
  /** The runs in progress. The first run is running, and the runs behind it share the connection. */
  readonly #queue: Run[] = []
  /** Shared runs that are sent together at the end of this turn. */
  readonly #unsent: Buffer[] = []
  #watch: NodeJS.Timeout | undefined
  /** A cancel request is in progress. It would also cancel any later run. */
  #isAbandoned = false
  #sharedRuns: SharedRuns | undefined
  #ended: Error | undefined
  /** How many rows each statement of the last run returned or wrote, by its command tag. */
  affected: readonly number[] = []
  /** The columns of each described statement of the last run. */
  fields: readonly (readonly Field[])[] = []
  #texts: readonly TextRows[] = []
  /** Whether the last run and the connection were ended because the run's rows were too large. */
  isTruncated = false
  /** The state in the last ReadyForQuery: idle, in a transaction, or in a failed transaction. */
  transaction: 'idle' | 'open' | 'failed' = 'idle'

  private constructor(client: pg.Client, now: number, onEnd: (connection: Connection) => void) {
    // This is the only dependency on pg's internals. The version is pinned, and a test covers this.
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
      try {
        reader.push(chunk)
        this.#sink?.flush()
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        this.#end(error)
      }
    })
    socket.on('error', error => this.#end(error))
    socket.on('close', () => this.#end(new Error('the connection has been closed')))
    socket.on('end', () => socket.destroy())
  }

  /** @throws ConnectionFailure */
  static async open(address: Address, now: () => number, onEnd: (connection: Connection) => void): Promise<Connection> {
    return new Connection(await connect(address), now(), onEnd)
  }

  /**
   * The rows of each statement of the last run whose rows are text. The caller takes them over, so that an idle
   * connection retains none.
   */
  takeTexts(): readonly TextRows[] {
    const texts = this.#texts
    this.#texts = []
    return texts
  }

  get isUsable(): boolean {
    return this.#queue.length === 0 && this.transaction === 'idle' && !this.#isUnusable
  }

  /** No further run may start on this connection. */
  get #isUnusable(): boolean {
    return this.#ended !== undefined || this.#isLost || this.#isAbandoned
  }

  get #running(): Run | undefined {
    return this.#queue[0]
  }

  /** The sink of the step whose rows arrive now. */
  get #sink(): RowSink | undefined {
    return this.#running?.sink
  }

  /** Stops reading until `resume`. Postgres waits when the socket buffers are full. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /**
   * Runs statements in order in one round trip: as one transaction, unless they begin and end a transaction themselves.
   * `prepared`: caches them. If the rows exceed `maximumBytes`, the result contains the earlier rows and `isTruncated`,
   * and the connection is closed. So uncommitted changes are never committed.
   * @throws DatabaseError of the first statement that fails; later statements do not run; ConnectionFailure
   */
  run(steps: readonly Step[], prepared: boolean, maximumBytes = Number.POSITIVE_INFINITY): Promise<Rows> {
    if (this.#queue.length > 0) return Promise.reject(new Error('a connection runs one request at a time'))
    return this.#begin(steps, prepared, maximumBytes, undefined).then(({ rows }) => rows)
  }

  /**
   * Whether a run of this expected duration may wait behind the runs that share the connection. If a caller waits for
   * exclusive use, runs may join only for a while.
   */
  acceptsShared(expectedMs: number, isWaitedFor: boolean): boolean {
    return !this.#isUnusable && (this.#sharedRuns?.accepts(expectedMs, this.#queue, isWaitedFor) ?? false)
  }

  /**
   * Starts sharing. Several runs are queued. If a run takes longer than `slowMs` or leaves a transaction open, the runs
   * behind it are evicted. `onFree` is called once all runs have ended or the connection is closed.
   */
  share(onFree: () => void, slowMs: number): void {
    this.#sharedRuns = new SharedRuns(onFree, slowMs)
  }

  /**
   * Runs statements like `run`, behind other runs that share the connection. If the signal is aborted, throws its
   * reason, and cancels the query if no other run waits behind it.
   * @throws Evicted if the run should be repeated on another connection: an earlier run took long or closed the
   *   connection, or this run's rows are large
   */
  async runShared(steps: readonly Step[], prepared: boolean, expectedMs: number, signal: AbortSignal): Promise<Taken> {
    if (signal.aborted) {
      if (this.#queue.length === 0) this.#freed()
      throw signal.reason
    }
    const taken = this.#begin(steps, prepared, maximumSharedBytes, expectedMs)
    const own = this.#queue.at(-1)
    const abandon = () => own !== undefined && this.#abandon(own, signal.reason)
    signal.addEventListener('abort', abandon)
    try {
      return await taken
    } finally {
      signal.removeEventListener('abort', abandon)
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
      // A partly sent request must be completed before the next request.
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

  /** All runs of one turn are sent in one write. The write and waking Postgres are most of the cost of a short run. */
  #sendLater(pieces: readonly Buffer[]): void {
    if (this.#unsent.length === 0) setImmediate(() => this.#send(this.#unsent.splice(0)))
    for (const piece of pieces) {
      const last = this.#unsent.at(-1)
      const joined = last === undefined ? undefined : joinedPiece(last, piece)
      if (joined === undefined) this.#unsent.push(piece)
      else this.#unsent[this.#unsent.length - 1] = joined
    }
    if (this.#queue.length > 1) this.#watch ??= setTimeout(() => this.#checkFirst(), checkIntervalMs)
  }

  /** No run may wait long behind another run. */
  #checkFirst(): void {
    this.#watch = undefined
    const [first, ...behind] = this.#queue
    if (first === undefined || (behind.length === 0 && !first.isAbandoned)) return
    const isSlow = performance.now() - first.since > (this.#sharedRuns?.slowMs ?? 0)
    if (isSlow) this.#displace(behind)
    if (isSlow && first.isAbandoned) this.#stop()
    this.#watch = setTimeout(() => this.#checkFirst(), isSlow ? cancelAgainMs : checkIntervalMs)
  }

  /**
   * Evicted runs still run when Postgres reaches them, because sent messages cannot be withdrawn. They do no harm,
   * because they are short reads.
   */
  #displace(behind: readonly Run[]): void {
    if (this.#sharedRuns !== undefined) this.#sharedRuns.isOver = true
    for (const one of behind) one.abandon()
  }

  #stop(): void {
    this.#isAbandoned = true
    this.cancel()
  }

  #abandon(run: Run, reason: Error): void {
    run.abandon(reason)
    const [first, ...behind] = this.#queue
    if (run !== first || behind.some(one => !one.isAbandoned)) return
    this.#stop()
    this.#watch ??= setTimeout(() => this.#checkFirst(), cancelAgainMs)
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
      if (!running.take(type, buffer, start, end)) this.#truncate(running)
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
    // A shared run has its rows in its result, so that an idle connection retains none.
    this.#texts = running.expectedMs === undefined ? running.texts : []
    const [next] = this.#queue
    if (next !== undefined) next.since = now
    this.#isLost ||= running.hasLostStatement
    running.finish(now)
    // In a failed transaction, no later run can execute until a rollback.
    if (this.transaction !== 'idle' && this.#sharedRuns !== undefined) this.#displace(this.#queue)
    if (this.#isAbandoned) this.close()
    else if (next === undefined) this.#freed()
  }

  #freed(): void {
    const sharedRuns = this.#sharedRuns
    this.#sharedRuns = undefined
    sharedRuns?.onFree()
  }

  #admits(bytes: number): boolean {
    const running = this.#running
    if (running === undefined || running.admits(bytes)) return true
    this.#truncate(running)
    return false
  }

  #truncate(running: Run): void {
    this.#queue.shift()
    this.isTruncated = true
    this.affected = running.affected
    this.fields = running.fields
    this.#texts = running.texts
    for (const one of this.#queue.splice(0)) one.abandon()
    this.#end(new Error('the rows were too large'))
    running.truncate()
  }

  #end(error: Error): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    clearTimeout(this.#watch)
    this.#socket.destroy()
    const [first, ...behind] = this.#queue.splice(0)
    first?.lose(new ConnectionFailure(error.message))
    for (const one of behind) one.abandon()
    this.#freed()
    this.#onEnd(this)
  }

  /** Sends Postgres a cancel request for this connection. */
  cancel(): void {
    cancel(this.#insides)
  }

  /** Closes gracefully if the connection is idle. */
  close(): void {
    if (this.#ended !== undefined) return
    if (this.#queue.length === 0) this.#socket.write(Buffer.from([0x58, 0, 0, 0, 4]))
    this.#end(new Error('the connection has been closed'))
  }
}
