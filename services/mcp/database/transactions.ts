/**
 * Runs statements in transactions of their own. It promises that each has limits of time and size, that nothing of it is left in the session for the next one, and that every statement is tagged.
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
import { Displaced } from '../../postgres/errors.ts'
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

/** Who asks, and for what. `isForAll`: what others wait for too, which takes from nobody's share. */
export type Asked = {
  readonly database: DatabaseSettings
  readonly context: CallContext
  readonly tool: string
  readonly isForAll?: boolean
}

/** No principal and no address is called so. */
const everybody = ''

/** A caller's statement, whose tag is another each time. */
const mainStep = (text: string, values: Step['values'], maximumRows: number): Step => ({
  text,
  values,
  isUnnamed: true,
  isDescribed: true,
  isText: true,
  maximumRows,
})

/** `at`: the step that is the caller's statement. */
const ranOf = ({ affected, fields, texts }: Omit<Taken, 'rows' | 'tookMs'>, at: number, isCut: boolean): Ran => ({
  columns: fields[at] ?? [],
  texts: texts[at] ?? new TextRows(),
  affected: affected[at] ?? 0,
  isCut,
})

function learn(durations: Durations, text: string, { texts, isCut }: Ran, tookMs: number | undefined): void {
  if (tookMs !== undefined && !isCut) durations.learn(text, tookMs, texts.bytes)
}

export class Transactions {
  readonly #pools: Pools
  /** Of rows, for one call. */
  readonly #maximumBytes: number

  constructor(pools: Pools, maximumBytes: number) {
    this.#pools = pools
    this.#maximumBytes = maximumBytes
  }

  /** Reads by statements of the server's own, all in one snapshot. */
  readOwn(asked: Asked, statements: readonly OwnStatement[]): Promise<readonly Rows[]> {
    const tag = statementTag(asked.context, asked.tool)
    const tagged = statements.map(({ text, ...rest }) => ({ text: text + tag, ...rest }))
    const limits = { statementTimeoutMs: asked.database.statementTimeoutMs, maximumBytes: this.#maximumBytes }
    return this.#within(asked, 'snapshot', async connection => {
      const rows = await readOnly(connection, tagged, limits)
      if (rows === undefined) throw new ResultTooLarge()
      return rows
    })
  }

  async runJudged(asked: Asked, statement: JudgedStatement): Promise<Ran> {
    return (await this.#runShort(asked, statement)) ?? this.#runAlone(asked, statement)
  }

  /**
   * Works in a transaction that has begun; what was left of the signal is what it is aborted with. Where the deadline passes, the caller is answered, and connection and share are given back once
   * Postgres has stopped: what it still holds counts.
   */
  async #within<T>(
    { database, context, isForAll = false }: Asked,
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

  /** Runs a read that is known to be short together with others of its caller. undefined: it is not known to be, or is to run by itself. */
  async #runShort(
    asked: Asked,
    { text, values = [], mode, maximumRows, before }: JudgedStatement,
  ): Promise<Ran | undefined> {
    const { database, context, tool } = asked
    const { shortReads, durations } = this.#pools.of(database)
    // A connection that is shared takes results up to a limit of its own.
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
      learn(durations, text, ran, tookMsOf(taken.rows[begin.length + 1]))
      return ran
    } catch (error) {
      // It runs by itself next time, and shows how long it takes.
      durations.forget(text)
      if (error instanceof Displaced) return undefined
      signal.throwIfAborted()
      throw error
    } finally {
      deadline.clear()
      running.catch(() => {})
    }
  }

  #runAlone(asked: Asked, { text, values = [], mode, maximumRows, before = [] }: JudgedStatement): Promise<Ran> {
    const tag = statementTag(asked.context, asked.tool)
    const first = before.map((one): Step => ({ text: one + tag, values: [], isUnnamed: true }))
    const main = mainStep(text + tag, values, maximumRows)
    const deadline = createDeadline(asked.database.statementTimeoutMs)
    const work = async (connection: Connection, begin: readonly Step[]) => {
      const at = begin.length + first.length
      const steps = [...begin, ...first, main, ...(mode === 'read' ? endOfRead : [])]
      const rows = await connection.run(steps, true, this.#maximumBytes)
      const { affected, fields, isCut } = connection
      const ran = ranOf({ affected, fields, texts: connection.takeTexts() }, at, isCut)
      if (mode === 'read' && first.length === 0)
        learn(this.#pools.of(asked.database).durations, text, ran, tookMsOf(rows[at + 1]))
      if (mode === 'write') await commitWrite(connection, isCut, deadline)
      return ran
    }
    return this.#within(asked, mode, work, deadline)
  }
}

async function commitWrite(connection: Connection, isCut: boolean, deadline: Deadline): Promise<void> {
  // What cannot be shown whole has not been committed, for the connection has ended.
  if (isCut) throw new ResultTooLarge()
  // The caller has been told that nothing was done, or now waits for as long as it takes.
  deadline.check()
  deadline.clear()
  await connection.run(commit, true)
  // A function may have changed settings of the session, or taken locks; the next call gets a session without a past.
  connection.close()
}
