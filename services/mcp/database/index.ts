/**
 * Statements on the configured databases. It promises that each call has a transaction of its own with limits of time and size, that nothing of it is left in the
 * session for the next one, and that every statement is tagged and noted.
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
import { AcquisitionTimeout, ConnectionFailure, DatabaseError, Displaced } from '../../postgres/errors.ts'
import { readOnly } from '../../postgres/read-only.ts'
import type { Step, Taken } from '../../postgres/run.ts'
import { TextRows } from '../../postgres/text-rows.ts'
import { transact } from '../../postgres/transact.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { CallContext } from '../core/call.ts'
import type { AuditEntry, DatabaseAccess, JudgedStatement, OwnStatement, Ran, Rows, StatementRunner } from './access.ts'
import { type Catalogue, createCatalogue } from './catalogue.ts'
import { createDeadline, type Deadline } from './deadline.ts'
import { ResultTooLarge } from './errors.ts'
import { createPools } from './pools.ts'
import { ownerOf } from './shares.ts'
import { statementTag } from './tag.ts'

type DatabaseAccessOptions = {
  /** Of rows, for one call. */
  readonly maximumBytes: number
  readonly audit: (entry: AuditEntry) => void
  /** Told of logins that may do more than they should, and why a database cannot be reached. */
  readonly warn: (facts: object, message: string) => void
}

export type Databases = DatabaseAccess &
  StatementRunner &
  Catalogue & {
    /** Opens the connections that are to be kept open of these databases, and none of any other. */
    prepare(databases: readonly DatabaseSettings[]): void
    close(): void
  }

/** Who asks, and for what. `isForAll`: what others wait for too, which takes from nobody's share. */
type Asked = {
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

function outcomeOf(error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return 'cancelled'
  if (error instanceof DatabaseError) return error.sqlState
  if (error instanceof ConnectionFailure || error instanceof AcquisitionTimeout) return 'no connection'
  return 'failed'
}

export function createDatabaseAccess({ maximumBytes, audit, warn }: DatabaseAccessOptions): Databases {
  const pools = createPools(Date.now)
  /** A connection that is shared takes results up to a limit of its own. */
  const canShare = maximumBytes >= maximumSharedBytes

  /**
   * Works in a transaction that has begun; what was left of the signal is what it is aborted with. Where the deadline passes, the caller is answered, and connection and share are given back once
   * Postgres has stopped: what it still holds counts.
   */
  async function within<T>(
    { database, context, isForAll = false }: Asked,
    kind: TransactionKind,
    work: (connection: Connection, begin: readonly Step[]) => Promise<T>,
    deadline?: Deadline,
  ): Promise<T> {
    const { signal } = context
    const { pool, shares } = pools.of(database)
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

  type Noted = Pick<AuditEntry, 'mode' | 'author' | 'statement'>
  type End = Pick<AuditEntry, 'rows' | 'milliseconds' | 'outcome'>

  const note = (
    { database, context, tool }: Asked,
    { mode, author, statement }: Noted,
    { rows, milliseconds, outcome }: End,
  ) =>
    audit({
      tool,
      database: database.name,
      principal: context.caller.principal,
      requestId: context.requestId,
      mode,
      author,
      statement,
      rows,
      milliseconds,
      outcome,
    })

  /** Notes what came of a call, whatever it was. */
  async function noted<T>(
    asked: Asked,
    entry: Noted,
    rowsOf: (result: T) => number,
    work: () => Promise<T>,
  ): Promise<T> {
    const from = performance.now()
    const end = (rows: number, outcome: string) =>
      note(asked, entry, { rows, milliseconds: Math.round((performance.now() - from) * 1_000) / 1_000, outcome })
    try {
      const result = await work()
      end(rowsOf(result), 'done')
      return result
    } catch (error) {
      const { signal } = asked.context
      end(0, outcomeOf(error, signal))
      if (error instanceof ConnectionFailure && !signal.aborted)
        warn({ database: asked.database.name, reason: error.message }, 'this database cannot be reached')
      throw error
    }
  }

  function readOwn(asked: Asked, statements: readonly OwnStatement[]): Promise<readonly Rows[]> {
    const tag = statementTag(asked.context, asked.tool)
    const tagged = statements.map(({ text, ...rest }) => ({ text: text + tag, ...rest }))
    const { statementTimeoutMs } = asked.database
    return within(asked, 'snapshot', async connection => {
      const rows = await readOnly(connection, tagged, { statementTimeoutMs, maximumBytes })
      if (rows === undefined) throw new ResultTooLarge()
      return rows
    })
  }

  /** Runs a read that is known to be short together with others of its caller. undefined: it is not known to be, or is to run by itself. */
  async function runShort(
    asked: Asked,
    { text, values = [], mode, maximumRows, before }: JudgedStatement,
  ): Promise<Ran | undefined> {
    const { database, context, tool } = asked
    const { shortReads, durations } = pools.of(database)
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

  async function runJudged(asked: Asked, statement: JudgedStatement): Promise<Ran> {
    return (await runShort(asked, statement)) ?? runAlone(asked, statement)
  }

  function runAlone(
    asked: Asked,
    { text, values = [], mode, maximumRows, before = [] }: JudgedStatement,
  ): Promise<Ran> {
    const tag = statementTag(asked.context, asked.tool)
    const first = before.map((one): Step => ({ text: one + tag, values: [], isUnnamed: true }))
    const main = mainStep(text + tag, values, maximumRows)
    const deadline = createDeadline(asked.database.statementTimeoutMs)
    const work = async (connection: Connection, begin: readonly Step[]) => {
      const at = begin.length + first.length
      const steps = [...begin, ...first, main, ...(mode === 'read' ? endOfRead : [])]
      const rows = await connection.run(steps, true, maximumBytes)
      const { affected, fields, isCut } = connection
      const ran = ranOf({ affected, fields, texts: connection.takeTexts() }, at, isCut)
      if (mode === 'read' && first.length === 0)
        learn(pools.of(asked.database).durations, text, ran, tookMsOf(rows[at + 1]))
      if (mode === 'write') {
        // What cannot be shown whole has not been committed, for the connection has ended.
        if (isCut) throw new ResultTooLarge()
        // The caller has been told that nothing was done, or now waits for as long as it takes.
        deadline.check()
        deadline.clear()
        await connection.run(commit, true)
        // A function may have changed settings of the session, or taken locks; the next call gets a session without a past.
        connection.close()
      }
      return ran
    }
    return within(asked, mode, work, deadline)
  }

  const read: DatabaseAccess['read'] = (database, statements, context, tool, isForAll = false) => {
    const asked = { database, context, tool, isForAll }
    const entry = {
      mode: 'read',
      author: 'server',
      statement: statements.map(({ text }) => text).join('; '),
    } as const
    const count = (results: readonly Rows[]) => results.reduce((sum, { rows }) => sum + rows.length, 0)
    return noted(asked, entry, count, () => readOwn(asked, statements))
  }

  return {
    read,
    ...createCatalogue({ read }, warn),
    run: (database, statement, context, tool) => {
      const asked = { database, context, tool }
      const { mode, text, written = text } = statement
      const entry = { mode, author: 'caller', statement: written } as const
      const count = ({ texts, affected }: Ran) => Math.max(texts.length, mode === 'write' ? affected : 0)
      return noted(asked, entry, count, () => runJudged(asked, statement))
    },
    // What it would have done is not known for sure; its text is kept back as that of a write.
    refused: (database, statement, context, tool) =>
      note(
        { database, context, tool },
        { mode: 'write', author: 'caller', statement },
        { rows: 0, milliseconds: 0, outcome: 'refused' },
      ),
    prepare: databases => pools.prepare(databases),
    close: () => pools.close(),
  }
}
