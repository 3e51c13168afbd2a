/**
 * One run of statements on a connection. Collects the result of each statement, and completes the caller's promise
 * exactly once. Retains at most the limit of row bytes.
 */
import type { DatabaseError } from '../../wire/errors.ts'
import {
  affectedRows,
  dataRow,
  errorResponse,
  type Field,
  type Parameter,
  type RowSink,
  rowDescription,
  rowHead,
} from '../../wire/messages.ts'
import { Evicted } from './errors.ts'
import type { Changes, PreparedStatements } from './prepared.ts'
import { TextRows } from './text-rows.ts'

export type Step = {
  readonly text: string
  readonly values: readonly Parameter[]
  /** The formats of the result's columns. None: all columns are text. */
  readonly formats?: readonly number[]
  /**
   * Never prepared under a name. Used for statements that are not repeated, and for statements that begin or end
   * transactions. Otherwise a function could deallocate the name and prepare another statement under it, and the
   * connection's next transaction would run that statement.
   */
  readonly isUnnamed?: true
  /** Returns the columns in `fields`. */
  readonly isDescribed?: true
  /** The rows are text, and are in `texts` instead of the run's result. */
  readonly isText?: true
  /** Postgres produces no further rows. */
  readonly maximumRows?: number
  /** Receives the step's rows, or only large rows. The run's result does not contain these rows. */
  readonly sink?: RowSink
}
export type Row = readonly (Buffer | null)[]
/** The rows of each step, in order. */
export type Rows = readonly (readonly Row[])[]

/** The result of a run. Each list has one item for each step. */
export type Taken = {
  readonly rows: Rows
  /** How many rows each statement returned or wrote, by its command tag. */
  readonly affected: readonly number[]
  /** The columns of the described steps. */
  readonly fields: readonly (readonly Field[])[]
  /** The rows of the steps whose rows are text. */
  readonly texts: readonly TextRows[]
  /**
   * The milliseconds that Postgres needed. Undefined for a run behind other runs, because all their responses arrive
   * together.
   */
  readonly tookMs: number | undefined
}

/** Errors and notices repeat values, and are never rows. */
const largestOtherMessage = 1_048_576
/**
 * A prepared statement differs from the expected one under its name: a function has deallocated or prepared statements,
 * or a dependency has changed.
 */
const lostStatements = new Set(['26000', '42P05', '08P01', '0A000'])

type RunOptions = {
  readonly steps: readonly Step[]
  readonly prepared: PreparedStatements
  /** The Parse and Close messages that were sent. */
  readonly changes: Changes
  /** The bytes of rows. */
  readonly maximumBytes: number
  /** The expected duration in milliseconds, if known. Undefined for a run with exclusive use of the connection. */
  readonly expectedMs: number | undefined
  /** Whether no earlier run is in progress. */
  readonly isFirst: boolean
}

export class Run {
  readonly taken: Promise<Taken>
  readonly expectedMs: number | undefined
  /** How many rows each statement returned or wrote, by its command tag. */
  readonly affected: number[] = []
  /** The columns of each described statement. */
  readonly fields: (readonly Field[])[] = []
  /** The rows of each statement whose rows are text. */
  readonly texts: TextRows[] = []
  /** The time at which this became the first run in progress. */
  since = performance.now()
  /** No caller waits for the result. */
  isAbandoned = false
  #error: DatabaseError | undefined
  readonly #wasFirst: boolean
  readonly #steps: readonly Step[]
  readonly #results: Row[][]
  readonly #prepared: PreparedStatements
  readonly #changes: Changes
  #step = 0
  #remainingBytes: number
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
    this.#remainingBytes = maximumBytes
  }

  /** The sink of the step whose rows arrive now. */
  get sink(): RowSink | undefined {
    return this.#steps[this.#step]?.sink
  }

  /** Whether the run failed because of the connection's prepared statements, so that the connection must be closed. */
  get hasLostStatement(): boolean {
    return this.#error !== undefined && lostStatements.has(this.#error.sqlState)
  }

  /** Handles a message of Postgres. Returns false if the run's rows exceed the limit. @throws ProtocolError */
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
        this.fields[this.#step] = rowDescription(buffer, start, end)
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

  /**
   * Whether to assemble a partly received message. Otherwise, a row of a gigabyte would be in memory before its size is
   * checked.
   */
  admits(bytes: number): boolean {
    return bytes <= this.#remainingBytes + largestOtherMessage
  }

  #row(buffer: Buffer, start: number, end: number): boolean {
    const step = this.#steps[this.#step]
    const sink = step?.sink
    this.#remainingBytes -= end - start
    if (this.#remainingBytes < 0) return false
    if (step?.isText) {
      const texts = this.texts[this.#step] ?? new TextRows()
      this.texts[this.#step] = texts
      texts.add(buffer, start, end)
    } else if (sink === undefined || sink.isForLarge) this.#results[this.#step]?.push(dataRow(buffer, start, end))
    else {
      const head = rowHead(buffer, start, end)
      sink.begin(head?.cells ?? [], head?.lastLength ?? -1)
      if (head !== undefined && head.lastLength > 0) sink.push(buffer.subarray(head.at, end))
    }
    return true
  }

  /** Postgres has finished the run. */
  finish(now: number): void {
    this.#prepared.end(this.#changes)
    const tookMs = this.#wasFirst ? now - this.since : undefined
    if (this.#error === undefined) this.#resolve(this.#taken(tookMs))
    // A function may have replaced a prepared statement.
    else this.#reject(this.hasLostStatement && this.expectedMs !== undefined ? new Evicted() : this.#error)
  }

  #taken(tookMs: number | undefined): Taken {
    const { affected, fields, texts } = this
    return { rows: this.#results, affected, fields, texts, tookMs }
  }

  /** Ends with the rows before the limit. */
  truncate(): void {
    if (this.expectedMs === undefined) this.#resolve(this.#taken(undefined))
    else this.#reject(new Evicted())
  }

  /**
   * The caller stops waiting, for this reason or because the run is repeated on another connection. Sent messages
   * cannot be withdrawn.
   */
  abandon(reason: Error = new Evicted()): void {
    this.isAbandoned = true
    this.#reject(reason)
  }

  /** The run's connection is closed. */
  lose(failure: Error): void {
    // Postgres sends the reason before it closes the connection (57P01 and similar codes).
    this.#reject(this.#error ?? failure)
  }
}
