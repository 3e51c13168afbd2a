/**
 * Runs a plan: one round trip where the end is known beforehand, two where the result decides whether it may stand. Of what only reads, an answer of some size is handed
 * on as it comes.
 */

import type { AnswerStream } from '../../http/message.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Displaced } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import { checkCost } from '../limits/plan-limits.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { ComingAnswer, TextSink } from './coming-answer.ts'
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

/** Text for all of the main statement's columns but the last. */
const mainFormats = [0, 0, 0, 0, 0, 0, 1]

type Sharing = {
  /** In milliseconds, where it is known to be short. */
  readonly expectedMs: number | undefined
  /** Told how long Postgres took, and for how many bytes. */
  readonly onTook: (tookMs: number, bytes: number) => void
}

export type Execution = {
  readonly plan: Plan
  readonly rendered: Rendered
  readonly facts: SessionFacts
  readonly mode: TransactionMode
  readonly prepared: boolean
  /** How long Postgres lets the statement run; 0 is for ever. */
  readonly statementTimeoutMs: number
  /** Whether an answer of some size is handed on as it comes. */
  readonly isStreamed: boolean
  /** Of what may share a connection with others. */
  readonly sharing: Sharing | undefined
  /** When the client is gone, what runs for it is stopped. */
  readonly signal: AbortSignal
}

/** @throws Displaced, where it is to be run by itself */
async function readShared(pool: Pool, execution: Execution, expectedMs: number): Promise<Outcome> {
  const { plan, rendered, facts, mode, prepared, signal, sharing } = execution
  const { before } = transactionSteps(facts, mode)
  const { main, estimate } = rendered
  const own: Step[] = [...(estimate === undefined ? [] : [estimate]), { ...main, formats: mainFormats }]
  const { rows, tookMs } = await pool.runShared([...before, ...own], prepared, expectedMs, signal)
  const outcome = readOutcome(rows.slice(before.length), rendered, plan, undefined)
  if (tookMs !== undefined) sharing?.onTook(tookMs, outcome.body.length)
  checkOutcome(plan, outcome)
  return outcome
}

/** Reads, and resolves once all is there, or there is more than is waited for. */
function readComing(pool: Pool, execution: Execution): Promise<Outcome> {
  const { plan, rendered, facts, mode, prepared, signal, statementTimeoutMs, sharing } = execution
  const { before, after } = transactionSteps(facts, mode)
  const { main, estimate } = rendered
  const estimated = new TextSink()
  const counted = (outcome: Outcome): Outcome =>
    estimate === undefined ? outcome : withEstimate(outcome, estimatedRows(estimated.text), plan)
  return new Promise((resolve, reject) => {
    const ended = transact(pool, signal, async connection => {
      const began = performance.now()
      const isLate = () => statementTimeoutMs > 0 && performance.now() - began > statementTimeoutMs / 2
      const giveUp = () => {
        if (!coming.isEnded) connection.close()
      }
      const coming = new ComingAnswer({
        connection,
        rowBody: rendered.rowBody,
        isPressed: () => isLate() || pool.figures.waiting > 0,
        isWaitedFor: () => pool.figures.waiting > pool.figures.size - pool.figures.open,
        onOpen() {
          // What Postgres has sent already is not waited for.
          signal.addEventListener('abort', giveUp)
          if (signal.aborted) giveUp()
          const writeTo = (out: AnswerStream) => coming.writeTo(out, ended)
          const outcome = counted(openOutcome(coming.head))
          resolve({ ...outcome, coming: { length: coming.length, writeTo, giveUp } })
        },
      })
      const own = estimate === undefined ? [] : [{ ...estimate, sink: estimated }]
      try {
        const steps = [...before, ...own, { ...main, formats: mainFormats, sink: coming }, ...after]
        const results = await connection.run(steps, prepared)
        sharing?.onTook(performance.now() - began, coming.isOpen ? Number.POSITIVE_INFINITY : 0)
        return { coming, row: results[before.length + own.length]?.[0] }
      } finally {
        coming.end()
        signal.removeEventListener('abort', giveUp)
      }
    })
    ended.then(({ coming, row }) => {
      if (!coming.isOpen) resolve(counted(outcomeOf(coming.head ?? row, coming.whole())))
    }, reject)
  })
}

/**
 * Runs the statements of a plan between others of its transaction.
 * @throws RestError where the result must not stand, DatabaseError, ConnectionFailure
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
  const asked = await askedCost(connection, plan, rendered, before)
  const results = await connection.run([...before.slice(asked), ...own, ...after], prepared)
  const first = before.length - asked
  const counted = write === undefined ? undefined : connection.affected[first]
  const outcome = readOutcome(results.slice(first), rendered, plan, counted)
  checkOutcome(plan, outcome)
  return outcome
}

function run(pool: Pool, execution: Execution): Promise<Outcome> {
  const { facts, mode, prepared, signal, sharing } = execution
  const { before, after } = transactionSteps(facts, mode)
  const runOnce = async (connection: Connection) => {
    const began = performance.now()
    const outcome = await runOn(connection, execution, before, after)
    sharing?.onTook(performance.now() - began, outcome.body.length)
    if (mode.end === 'decide') await connection.run(endSteps('commit'), prepared)
    return outcome
  }
  return transact(pool, signal, connection =>
    mode.readOnly ? runOnce(connection) : writing(connection, () => runOnce(connection)),
  )
}

/** Where the role's limits say so, what the plan costs, before anything of it runs. Returns how many of the transaction's first statements have been run for it. */
async function askedCost(
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
 * Runs a plan in a transaction of its own; once more where that has failed for others' that ran beside it.
 * @throws RestError where the result must not stand, DatabaseError, ConnectionFailure, AcquisitionTimeout
 */
export const execute = (pool: Pool, execution: Execution): Promise<Outcome> =>
  retrying(execution.signal, async () => {
    const { sharing, isStreamed } = execution
    const expectedMs = sharing?.expectedMs
    if (expectedMs !== undefined) {
      try {
        return await readShared(pool, execution, expectedMs)
      } catch (error) {
        if (!(error instanceof Displaced)) throw error
      }
    }
    return isStreamed ? readComing(pool, execution) : run(pool, execution)
  })
