/**
 * Runs each statement in its own transaction. The transaction has limits of time and size, leaves nothing in the
 * session for the next transaction, and is tagged.
 */
import {
  afterFailure,
  beginSteps,
  commit,
  endOfRead,
  type TransactionKind,
  tookMsOf,
} from '../../postgres/bounded-transaction.ts'
import { type Connection, maximumSharedBytes } from '../../postgres/connection.ts'
import type { Durations } from '../../postgres/durations.ts'
import { Evicted } from '../../postgres/errors.ts'
import { readOnly } from '../../postgres/read-only.ts'
import type { Step, Taken } from '../../postgres/run.ts'
import { TextRows } from '../../postgres/text-rows.ts'
import { transact } from '../../postgres/transact.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { JudgedStatement, OwnStatement, Ran, Rows } from './access.ts'
import { createDeadline, type Deadline } from './deadline.ts'
import { ResultTooLarge } from './errors.ts'
import type { Pools } from './pools.ts'
import { ownerOf } from './shares.ts'
import { statementTag } from './tag.ts'

/**
 * The caller and the purpose. `isForAll`: other callers may wait for the result too, so the statement counts against no
 * caller's share.
 */
export type StatementRequest = {
  readonly database: DatabaseSettings
  readonly context: CallContext
  readonly tool: string
  readonly isForAll?: boolean
}

/** The share of statements for all callers. No principal or address is empty. */
const allCallers = ''

/** A caller's statement. It is unnamed, because its tag is never the same again. */
const mainStep = (text: string, values: Step['values'], maximumRows: number): Step => ({
  text,
  values,
  isUnnamed: true,
  isDescribed: true,
  isText: true,
  maximumRows,
})

/** `at`: the index of the caller's statement among the steps. */
const ranOf = ({ affected, fields, texts }: Omit<Taken, 'rows' | 'tookMs'>, at: number, isTruncated: boolean): Ran => ({
  columns: fields[at] ?? [],
  texts: texts[at] ?? new TextRows(),
  affected: affected[at] ?? 0,
  isTruncated,
})

function recordDuration(
  durations: Durations,
  text: string,
  { texts, isTruncated }: Ran,
  tookMs: number | undefined,
): void {
  if (tookMs !== undefined && !isTruncated) durations.record(text, tookMs, texts.bytes)
}

export class Transactions {
  readonly #pools: Pools
  /** The size limit of rows in one call. */
  readonly #maximumBytes: number

  constructor(pools: Pools, maximumBytes: number) {
    this.#pools = pools
    this.#maximumBytes = maximumBytes
  }

  /** Reads with the server's own statements, all on one snapshot. */
  readOwn(request: StatementRequest, statements: readonly OwnStatement[]): Promise<readonly Rows[]> {
    const tag = statementTag(request.context, request.tool)
    const tagged = statements.map(({ text, ...rest }) => ({ text: text + tag, ...rest }))
    const limits = { statementTimeoutMs: request.database.statementTimeoutMs, maximumBytes: this.#maximumBytes }
    return this.#within(request, 'snapshot', async connection => {
      const rows = await readOnly(connection, tagged, limits)
      if (rows === undefined) throw new ResultTooLarge()
      return rows
    })
  }

  async runJudged(request: StatementRequest, statement: JudgedStatement): Promise<Ran> {
    return (await this.#runShort(request, statement)) ?? this.#runAlone(request, statement)
  }

  /**
   * Runs `work` in a started transaction. If the signal aborts, the transaction ends. If the deadline passes, the
   * caller receives an error. The connection and its share still count until Postgres has stopped the statement.
   */
  async #within<T>(
    { database, context, isForAll = false }: StatementRequest,
    kind: TransactionKind,
    work: (connection: Connection, begin: readonly Step[]) => Promise<T>,
    deadline?: Deadline,
  ): Promise<T> {
    const { signal } = context
    const { pool, shares } = this.#pools.of(database)
    const release = await shares.take(isForAll ? allCallers : ownerOf(context), signal)
    const begun = (connection: Connection) => {
      deadline?.start()
      return work(connection, beginSteps(kind, database))
    }
    const working = transact(pool, signal, begun, afterFailure).finally(release)
    try {
      return await (deadline === undefined ? working : Promise.race([working, deadline.passed]))
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      deadline?.clear()
      working.catch(() => {})
    }
  }

  /**
   * Runs a short read together with other reads of its caller. Returns undefined if the read is not known to be short,
   * or should run alone.
   */
  async #runShort(
    request: StatementRequest,
    { text, values = [], mode, maximumRows, before }: JudgedStatement,
  ): Promise<Ran | undefined> {
    const { database, context, tool } = request
    const { shortReads, durations } = this.#pools.of(database)
    // A shared connection has its own limit for the size of results.
    const canShare = this.#maximumBytes >= maximumSharedBytes
    const expectedMs = mode === 'read' && before === undefined && canShare ? durations.ofShort(text) : undefined
    if (expectedMs === undefined) return undefined
    const begin = beginSteps(mode, database)
    const steps = [...begin, mainStep(text + statementTag(context, tool), values, maximumRows), ...endOfRead]
    const deadline = createDeadline(database.statementTimeoutMs)
    const { signal } = context
    const running = shortReads.run({ owner: ownerOf(context), steps, expectedMs, signal, onBegin: deadline.start })
    try {
      const taken = await Promise.race([running, deadline.passed])
      const ran = ranOf(taken, begin.length, false)
      recordDuration(durations, text, ran, tookMsOf(taken.rows[begin.length + 1]))
      return ran
    } catch (error) {
      // The read runs alone next time, so that its duration is measured.
      durations.forget(text)
      if (error instanceof Evicted) return undefined
      signal.throwIfAborted()
      throw error
    } finally {
      deadline.clear()
      running.catch(() => {})
    }
  }

  #runAlone(
    request: StatementRequest,
    { text, values = [], mode, maximumRows, before = [] }: JudgedStatement,
  ): Promise<Ran> {
    const tag = statementTag(request.context, request.tool)
    const first = before.map((one): Step => ({ text: one + tag, values: [], isUnnamed: true }))
    const main = mainStep(text + tag, values, maximumRows)
    const deadline = createDeadline(request.database.statementTimeoutMs)
    const work = async (connection: Connection, begin: readonly Step[]) => {
      const at = begin.length + first.length
      const steps = [...begin, ...first, main, ...(mode === 'read' ? endOfRead : [])]
      const rows = await connection.run(steps, true, this.#maximumBytes)
      const { affected, fields, isTruncated } = connection
      const ran = ranOf({ affected, fields, texts: connection.takeTexts() }, at, isTruncated)
      if (mode === 'read' && first.length === 0)
        recordDuration(this.#pools.of(request.database).durations, text, ran, tookMsOf(rows[at + 1]))
      if (mode === 'write') await commitWrite(connection, isTruncated, deadline)
      return ran
    }
    return this.#within(request, mode, work, deadline)
  }
}

async function commitWrite(connection: Connection, isTruncated: boolean, deadline: Deadline): Promise<void> {
  // The connection has ended, so a write whose result is too large was not committed.
  if (isTruncated) throw new ResultTooLarge()
  // If the deadline has passed, the caller has received an error and the write must not be committed. Otherwise, the
  // commit has no time limit.
  deadline.check()
  deadline.clear()
  await connection.run(commit, true)
  // A function may have changed session settings or taken locks, so the next call needs a new session.
  connection.close()
}
