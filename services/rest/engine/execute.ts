/**
 * Runs a plan. This needs one round trip. It needs a second one if the result decides whether to commit, and one more
 * to check a cost limit. Streams large results of reads.
 */

import type { AnswerStream } from '../../http/message.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Evicted } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import { checkCost } from '../limits/plan-limits.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { IncomingRows, TextSink } from './incoming-rows.ts'
import {
  checkOutcome,
  estimatedRows,
  type Outcome,
  openOutcome,
  outcomeOf,
  readOutcome,
  withEstimate,
} from './outcome.ts'
import { retrying } from './retry.ts'
import { endSteps, type SessionFacts, type TransactionMode, transactionSteps } from './transaction.ts'
import { writing } from './writing.ts'

/** The main statement's last column is binary; all others are text. */
const mainFormats = [0, 0, 0, 0, 0, 0, 1]

type SharedRun = {
  /** The expected duration in milliseconds, if the statement is known to be short. */
  readonly expectedMs: number | undefined
  /** Called with the measured duration in milliseconds and the number of bytes; infinity: the result was streamed. */
  readonly onTook: (tookMs: number, bytes: number) => void
}

export type Execution = {
  readonly plan: Plan
  readonly rendered: Rendered
  readonly facts: SessionFacts
  readonly mode: TransactionMode
  readonly prepared: boolean
  /** The statement timeout; 0: none. */
  readonly statementTimeoutMs: number
  /** Whether a large result is streamed. */
  readonly isStreamed: boolean
  /** The options for runs that may share a connection. */
  readonly shared: SharedRun | undefined
  /** Cancels the query when the client disconnects. */
  readonly signal: AbortSignal
}

/** @throws Evicted if the run must be repeated on its own connection */
async function readShared(pool: Pool, execution: Execution, expectedMs: number): Promise<Outcome> {
  const { plan, rendered, facts, mode, prepared, signal, shared } = execution
  const { before } = transactionSteps(facts, mode)
  const { main, estimate } = rendered
  const own: Step[] = [...(estimate === undefined ? [] : [estimate]), { ...main, formats: mainFormats }]
  const { rows, tookMs } = await pool.runShared([...before, ...own], prepared, expectedMs, signal)
  const outcome = readOutcome(rows.slice(before.length), rendered, plan, undefined)
  if (tookMs !== undefined) shared?.onTook(tookMs, outcome.body.length)
  checkOutcome(plan, outcome)
  return outcome
}

/** Reads until all rows have arrived, or until the result exceeds the streaming threshold. */
function runStreamed(pool: Pool, execution: Execution): Promise<Outcome> {
  const { plan, rendered, facts, mode, prepared, signal, statementTimeoutMs, shared } = execution
  const { before, after } = transactionSteps(facts, mode)
  const { main, estimate } = rendered
  const estimated = new TextSink()
  const counted = (outcome: Outcome): Outcome =>
    estimate === undefined ? outcome : withEstimate(outcome, estimatedRows(estimated.text), plan)
  return new Promise((resolve, reject) => {
    const ended = transact(pool, signal, async connection => {
      const began = performance.now()
      const isLate = () => statementTimeoutMs > 0 && performance.now() - began > statementTimeoutMs / 2
      const abandon = () => {
        if (!rows.isEnded) connection.close()
      }
      const rows = new IncomingRows({
        connection,
        rowBody: rendered.rowBody,
        isUnderPressure: () => isLate() || pool.figures.waiting > 0,
        isWaitedFor: () => pool.figures.waiting > pool.figures.size - pool.figures.open,
        onOpen() {
          // A cancel request does not stop bytes that Postgres has already sent, so an abort closes the connection.
          signal.addEventListener('abort', abandon)
          if (signal.aborted) abandon()
          const writeTo = (out: AnswerStream) => rows.writeTo(out, ended)
          const outcome = counted(openOutcome(rows.head))
          resolve({ ...outcome, stream: { length: rows.length, writeTo, abandon } })
        },
      })
      const own = estimate === undefined ? [] : [{ ...estimate, sink: estimated }]
      try {
        const steps = [...before, ...own, { ...main, formats: mainFormats, sink: rows }, ...after]
        const results = await connection.run(steps, prepared)
        shared?.onTook(performance.now() - began, rows.isOpen ? Number.POSITIVE_INFINITY : 0)
        return { rows, row: results[before.length + own.length]?.[0] }
      } finally {
        rows.end()
        signal.removeEventListener('abort', abandon)
      }
    })
    ended.then(({ rows, row }) => {
      if (!rows.isOpen) resolve(counted(outcomeOf(rows.head ?? row, rows.complete())))
    }, reject)
  })
}

/**
 * Runs a plan's statements between the transaction's other statements.
 * @throws RestError if the result must be rolled back, DatabaseError, ConnectionFailure
 */
export async function runOn(
  connection: Connection,
  { plan, rendered, prepared }: Pick<Execution, 'plan' | 'rendered' | 'prepared'>,
  before: readonly Step[],
  after: readonly Step[],
): Promise<Outcome> {
  const { write, main, estimate, isExplain } = rendered
  const own: Step[] = [
    ...(estimate === undefined ? [] : [estimate]),
    ...(write === undefined ? [] : [write]),
    { ...main, formats: isExplain ? [] : mainFormats },
  ]
  const alreadyRun = await readCost(connection, plan, rendered, before)
  const results = await connection.run([...before.slice(alreadyRun), ...own, ...after], prepared)
  const first = before.length - alreadyRun
  const counted = write === undefined ? undefined : connection.affected[first]
  const outcome = readOutcome(results.slice(first), rendered, plan, counted)
  checkOutcome(plan, outcome)
  return outcome
}

function run(pool: Pool, execution: Execution): Promise<Outcome> {
  const { facts, mode, prepared, signal, shared } = execution
  const { before, after } = transactionSteps(facts, mode)
  const runOnce = async (connection: Connection) => {
    const began = performance.now()
    const outcome = await runOn(connection, execution, before, after)
    shared?.onTook(performance.now() - began, outcome.body.length)
    if (mode.end === 'decide') await connection.run(endSteps('commit'), prepared)
    return outcome
  }
  return transact(pool, signal, connection =>
    mode.readOnly ? runOnce(connection) : writing(connection, () => runOnce(connection)),
  )
}

/**
 * Checks the planned cost against the role's limit before the plan's statements run. Returns how many of the
 * transaction's first statements have already run.
 */
async function readCost(
  connection: Connection,
  plan: Plan,
  rendered: Rendered,
  before: readonly Step[],
): Promise<number> {
  if (plan.limits?.cost === undefined) return 0
  const { write, main } = rendered.isExplain
    ? render({ ...plan, body: { ...plan.body, explain: undefined } })
    : rendered
  const { text, values } = write ?? main
  const results = await connection.run(
    [...before, { text: `EXPLAIN (FORMAT JSON) ${text}`, values, isUnnamed: true }],
    false,
  )
  checkCost(plan, String(results.at(-1)?.[0]?.[0]))
  return before.length
}

/**
 * Runs a plan in its own transaction. Retries after a conflict with another transaction. Runs on a connection of its
 * own if it is evicted from a shared one.
 * @throws RestError if the result must be rolled back, DatabaseError, ConnectionFailure, AcquisitionTimeout
 */
export const execute = (pool: Pool, execution: Execution): Promise<Outcome> =>
  retrying(execution.signal, async () => {
    const { shared, isStreamed } = execution
    const expectedMs = shared?.expectedMs
    if (expectedMs !== undefined) {
      try {
        return await readShared(pool, execution, expectedMs)
      } catch (error) {
        if (!(error instanceof Evicted)) throw error
      }
    }
    return isStreamed ? runStreamed(pool, execution) : run(pool, execution)
  })
