/**
 * One run of statements on a connection: what comes back of each, as long as it is this run's turn, and how it ends for whoever waits for it. It promises that it is ended
 * once, and that no more of rows is held than was allowed.
 */
import { type DatabaseError, Displaced } from './errors.ts'
import {
  affectedRows,
  dataRow,
  errorResponse,
  type Field,
  type Parameter,
  type RowSink,
  rowDescription,
  rowHead,
} from './messages.ts'
import type { Changes, PreparedStatements } from './prepared.ts'
import { TextRows } from './text-rows.ts'

export type Step = {
  readonly text: string
  readonly values: readonly Parameter[]
  /** Formats of the result's columns; none is all text. */
  readonly formats?: readonly number[]
  /**
   * Not kept prepared under a name, whatever else is. For a text that does not come again, and for what begins and ends a transaction: a function of the database can deallocate
   * a name and prepare another statement under it, which the next transaction on this connection would run.
   */
  readonly isUnnamed?: true
  /** Says in `fields` which columns there are. */
  readonly isDescribed?: true
  /** Its rows are text, in `texts`, and none of the run's result. */
  readonly isText?: true
  /** The rest of its rows is never made. */
  readonly maximumRows?: number
  /** Takes its rows, or those that are large; they are none of the run's result then. */
  readonly sink?: RowSink
}
export type Row = readonly (Buffer | null)[]
/** Rows of each step, in order. */
export type Rows = readonly (readonly Row[])[]

/** The result of a run. The lists have one item for each step. */
export type Taken = {
  readonly rows: Rows
  /** Rows that each statement has returned or written, by its command tag. */
  readonly affected: readonly number[]
  /** Columns of the steps that are described. */
  readonly fields: readonly (readonly Field[])[]
  /** Rows of the steps whose rows are text. */
  readonly texts: readonly TextRows[]
  /** Milliseconds that Postgres took; undefined for a run behind others, whose answers come with its own. */
  readonly tookMs: number | undefined
}

/** Errors and notices repeat values, and are never rows. */
const largestOtherMessage = 1_048_576
/** A statement is not what was prepared under its name: a function has deallocated or prepared some, or what it depends on has changed. */
const lostStatements = new Set(['26000', '42P05', '08P01', '0A000'])

type RunOptions = {
  readonly steps: readonly Step[]
  readonly prepared: PreparedStatements
  /** What has been sent of preparing and closing. */
  readonly changes: Changes
  /** Of rows. */
  readonly maximumBytes: number
  /** In milliseconds, as far as that is known; undefined of one that has the connection to itself. */
  readonly expectedMs: number | undefined
  /** Whether nothing is under way before it. */
  readonly isFirst: boolean
}

export class Run {
  readonly taken: Promise<Taken>
  readonly expectedMs: number | undefined
  /** How many rows each statement has returned or written, by its command tag. */
  readonly affected: number[] = []
  /** The columns of each statement that was to be described. */
  readonly fields: (readonly Field[])[] = []
  /** The rows of each statement whose rows are text. */
  readonly texts: TextRows[] = []
  /** When it became the first of those that are under way. */
  since = performance.now()
  /** Nobody waits for what comes of it. */
  isGivenUp = false
  #error: DatabaseError | undefined
  readonly #wasFirst: boolean
  readonly #steps: readonly Step[]
  readonly #results: Row[][]
  readonly #prepared: PreparedStatements
  readonly #changes: Changes
  #step = 0
  #bytesLeft: number
  readonly #resolve: (taken: Taken) => void
  readonly #reject: (error: Error) => void

  constructor({ steps, prepared, changes, maximumBytes, expectedMs, isFirst }: RunOptions) {
    const { promise, resolve, reject } = Promise.withResolvers<Taken>()
    this.taken = promise
    this.#resolve = resolve
    this.#reject = reject
    this.expectedMs = expectedMs
    this.#wasFirst = isFirst
    this.#steps = steps
    this.#results = steps.map(() => [])
    this.#prepared = prepared
    this.#changes = changes
    this.#bytesLeft = maximumBytes
  }

  /** Of the step whose rows come. */
  get sink(): RowSink | undefined {
    return this.#steps[this.#step]?.sink
  }

  /** Whether it has failed for what is prepared on its connection, which is not to be used any more. */
  get hasLostStatement(): boolean {
    return this.#error !== undefined && lostStatements.has(this.#error.sqlState)
  }

  /** Takes a message of Postgres; false where its rows are more than was allowed. */
  take(type: number, buffer: Buffer, start: number, end: number): boolean {
    switch (type) {
      case 0x31: // 1, ParseComplete
        this.#prepared.prepared(this.#changes)
        return true
      case 0x33: // 3, CloseComplete
        this.#prepared.closed(this.#changes)
        return true
      case 0x44: // D, DataRow
        return this.#row(buffer, start, end)
      case 0x54: // T, RowDescription
        this.fields[this.#step] = rowDescription(buffer, start)
        return true
      case 0x43: // C, CommandComplete
      case 0x49: // I, EmptyQueryResponse
      case 0x73: // s, PortalSuspended
        this.affected.push(type === 0x43 ? affectedRows(buffer, start, end) : 0)
        this.#step++
        return true
      case 0x45: // E, ErrorResponse
        this.#error ??= errorResponse(buffer, start, end)
    }
    return true
  }

  /** Whether a message is to be put together that has not come whole; a row of a gigabyte would be in memory before it is known to be too much. */
  admits(bytes: number): boolean {
    return bytes <= this.#bytesLeft + largestOtherMessage
  }

  #row(buffer: Buffer, start: number, end: number): boolean {
    const step = this.#steps[this.#step]
    const sink = step?.sink
    this.#bytesLeft -= end - start
    if (this.#bytesLeft < 0) return false
    if (step?.isText) {
      const texts = this.texts[this.#step] ?? new TextRows()
      this.texts[this.#step] = texts
      texts.add(buffer, start, end)
    } else if (sink === undefined || sink.isForLarge) this.#results[this.#step]?.push(dataRow(buffer, start))
    else {
      const head = rowHead(buffer, start)
      sink.begin(head?.cells ?? [], head?.lastLength ?? -1)
      if (head !== undefined && head.lastLength > 0) sink.push(buffer.subarray(head.at, end))
    }
    return true
  }

  /** Postgres is done with it. */
  finish(now: number): void {
    this.#prepared.end(this.#changes)
    const tookMs = this.#wasFirst ? now - this.since : undefined
    if (this.#error === undefined) this.#resolve(this.#taken(tookMs))
    // Somebody else's function may have taken what it had prepared.
    else this.#reject(this.hasLostStatement && this.expectedMs !== undefined ? new Displaced() : this.#error)
  }

  #taken(tookMs: number | undefined): Taken {
    const { affected, fields, texts } = this
    return { rows: this.#results, affected, fields, texts, tookMs }
  }

  /** Ends with the rows that came before they were too many. */
  cut(): void {
    if (this.expectedMs === undefined) this.#resolve(this.#taken(undefined))
    else this.#reject(new Displaced())
  }

  /** Nobody waits any more: for the reason given, or as it is to be run elsewhere. What has been sent of it cannot be taken back. */
  giveUp(reason: Error = new Displaced()): void {
    this.isGivenUp = true
    this.#reject(reason)
  }

  /** Its connection is gone. */
  lose(failure: Error): void {
    // Postgres says why before it hangs up (57P01 and its like).
    this.#reject(this.#error ?? failure)
  }
}
