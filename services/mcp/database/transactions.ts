/**
 * Runs statements in their own transactions. Each has limits of time and size, leaves nothing in the session for the
 * next one, and is tagged.
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

/** The caller and the purpose. `isForAll`: other callers wait for the result too, so it counts against no share. */
export type StatementRequest = {
  readonly database: DatabaseSettings
  readonly context: CallContext
  readonly tool: string
  readonly isForAll?: boolean
}

/** Not a possible principal or address. */
const everybody = ''

/** A caller's statement, whose tag differs each time. */
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
  /** The size limit of rows, for one call. */
  readonly #maximumBytes: number

  constructor(pools: Pools, maximumBytes: number) {
    this.#pools = pools
    this.#maximumBytes = maximumBytes
  }

  /** Reads with statements of the server itself, all on one snapshot. */
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
   * Works in a started transaction; an abort of the signal ends it. If the deadline passes, the caller gets an answer,
   * and the connection and its share are released when Postgres has stopped: until then they count.
   */
  async #within<T>(
    { database, context, isForAll = false }: StatementRequest,
    kind: TransactionKind,
    work: (connection: Connection, begin: readonly Step[]) => Promise<T>,
    deadline?: Deadline,
  ): Promise<T> {
    const { signal } = context
    const { pool, shares } = this.#pools.of(database)
    const giveBack = await shares.take(isForAll ? everybody : ownerOf(context), signal)
    const begun = (connection: Connection) => {
      deadline?.start()
      return work(connection, beginSteps(kind, database))
    }
    const working = transact(pool, signal, begun, afterFailure).finally(giveBack)
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
   * Runs a read that is known to be short together with other reads of its caller. undefined: it is not known to be
   * short, or should run by itself.
   */
  async #runShort(
    request: StatementRequest,
    { text, values = [], mode, maximumRows, before }: JudgedStatement,
  ): Promise<Ran | undefined> {
    const { database, context, tool } = request
    const { shortReads, durations } = this.#pools.of(database)
    // A shared connection has its own limit for results.
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
      // It runs by itself next time, so that its duration is measured.
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
  // A result that cannot be shown completely has not been committed, because the connection has ended.
  if (isTruncated) throw new ResultTooLarge()
  // The caller got the answer that nothing was done, or waits without a limit.
  deadline.check()
  deadline.clear()
  await connection.run(commit, true)
  // A function may have changed session settings or taken locks, so the next call gets a new session.
  connection.close()
}
