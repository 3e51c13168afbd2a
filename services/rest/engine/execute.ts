/**
 * Runs a plan: one round trip where the end is known beforehand, two where the result decides whether it may stand. Of what only reads, an answer of some size is handed
 * on as it comes.
 */

import type { AnswerStream } from '../../http/message.ts'
import type { Connection } from '../../postgres/connection.ts'
import { Displaced } from '../../postgres/errors.ts'
import type { Pool } from '../../postgres/pool.ts'
import type { Row, Rows, Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import { notSingular, putOfAnotherRow, tooManyAffected } from '../errors/catalogue.ts'
import { checkCost, checkRows } from '../limits/plan-limits.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { ComingAnswer, TextSink } from './coming-answer.ts'
import { retrying } from './retry.ts'
import { endSteps, type SessionFacts, type TransactionMode, transactionSteps } from './transaction.ts'

/** What came back of a plan. */
export type Outcome = {
  readonly total: number | undefined
  readonly rows: number
  /** `key=eq.value` of each column of the key. */
  readonly location: readonly string[]
  readonly headers: string | undefined
  readonly status: string | undefined
  /** How many rows of an upsert were there before. */
  readonly updated: number
  readonly body: Buffer
  /** In place of the body, where it is not there yet. */
  readonly coming: ComingBody | undefined
}

/** A body whose transaction is still open: somebody has to write it, or to give it up. */
type ComingBody = {
  /** In bytes, where it is known. */
  readonly length: number | undefined
  writeTo(out: AnswerStream): Promise<void>
  giveUp(): void
}

const nothing = Buffer.alloc(0)
/** Text for all of the main statement's columns but the last. */
const mainFormats = [0, 0, 0, 0, 0, 0, 1]

const text = (cell: Buffer | null | undefined): string | undefined => cell?.toString('utf8')
const count = (cell: Buffer | null | undefined): number | undefined => {
  const found = text(cell)
  return found === undefined ? undefined : Number(found)
}

/** The elements of an array in Postgres's text form (manual section 8.15.6). */
function arrayElements(literal: string): string[] {
  const elements = literal.slice(1, -1).match(/"(?:\\.|[^"\\])*"|[^,]+/gs) ?? []
  return elements.map(element => (element.startsWith('"') ? element.slice(1, -1).replace(/\\(.)/gs, '$1') : element))
}

function outcomeOf(row: Row | undefined, body = row?.[6] ?? nothing): Outcome {
  const location = text(row?.[2])
  return {
    total: count(row?.[0]),
    rows: count(row?.[1]) ?? 0,
    location: location === undefined ? [] : arrayElements(location),
    headers: text(row?.[3]),
    status: text(row?.[4]),
    updated: count(row?.[5]) ?? 0,
    body,
    coming: undefined,
  }
}

const explainOutcome = (rows: readonly Row[]): Outcome => ({
  total: undefined,
  rows: 1,
  location: [],
  headers: undefined,
  status: undefined,
  updated: 0,
  body: Buffer.from(rows.map(row => text(row[0]) ?? '').join('\n')),
  coming: undefined,
})

/** The rows that Postgres expects, of EXPLAIN (FORMAT JSON). */
function estimatedRows(json: string | undefined): number {
  const explained: unknown = JSON.parse(json ?? '[]')
  // The form of EXPLAIN's JSON is Postgres's own: a list of one object with a plan.
  const [{ Plan }] = explained as [{ Plan: { 'Plan Rows': number } }]
  return Plan['Plan Rows']
}

/** Whether the plan itself, or its result, can be one that must not stand. */
export const decides = (plan: Plan): boolean =>
  plan.limits?.cost !== undefined || (plan.limits !== undefined && writes(plan)) || decidesByForm(plan)

const writes = (plan: Plan): boolean => plan.kind === 'write' || (plan.kind === 'call' && !plan.readOnly)

const decidesByForm = (plan: Plan): boolean =>
  plan.body.explain === undefined &&
  ((plan.kind === 'write' &&
    (plan.body.singular || plan.maximumAffected !== undefined || (plan.write.kind === 'insert' && plan.write.isPut))) ||
    (plan.kind === 'call' && !plan.readOnly && (plan.body.singular || plan.maximumAffected !== undefined)))

/** Whether the result may stand; if not, whatever was written is taken back. */
function checkOutcome(plan: Plan, { rows }: Outcome): void {
  if (plan.body.explain !== undefined) return
  checkRows(plan, rows)
  if (plan.kind === 'write' && plan.write.kind === 'insert' && plan.write.isPut && rows !== 1) {
    throw putOfAnotherRow()
  }
  const most = plan.kind === 'read' ? undefined : plan.maximumAffected
  if (most !== undefined && rows > most) throw tooManyAffected(rows)
  if (plan.body.singular && rows !== 1) throw notSingular(rows)
}

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

/** Takes an estimate into account: a count that stopped at the maximum is not the total. */
function withEstimate(outcome: Outcome, estimate: number, plan: Plan): Outcome {
  if (plan.kind === 'write') return outcome
  const { total } = outcome
  if (plan.count === 'planned' || total === undefined) return { ...outcome, total: estimate }
  const isCut = plan.maximumRows === undefined || total > plan.maximumRows
  return isCut ? { ...outcome, total: Math.max(total, estimate) } : outcome
}

/** Whether nothing that comes after the head can change it: neither what has been written, nor how much it was, nor how the transaction ends. */
export const canStream = (plan: Plan, { end, isolationLevel }: TransactionMode): boolean =>
  plan.kind !== 'write' &&
  plan.limits?.cost === undefined &&
  !plan.headersOnly &&
  !plan.body.singular &&
  plan.body.explain === undefined &&
  (plan.kind === 'read' || (plan.readOnly && plan.maximumAffected === undefined)) &&
  end !== 'decide' &&
  isolationLevel !== 'serializable'

/** Whether it may run twice, and leaves nothing behind that others of its connection could meet. */
export const canShare = (plan: Plan, rendered: Rendered, { end, isolationLevel }: TransactionMode): boolean =>
  (plan.kind === 'read' || (plan.kind === 'call' && plan.readOnly && plan.routine.volatility !== 'volatile')) &&
  plan.limits?.cost === undefined &&
  !rendered.isExplain &&
  rendered.rowBody === undefined &&
  end === 'commit' &&
  isolationLevel === undefined

/** @throws Displaced, where it is to be run by itself */
async function readShared(pool: Pool, execution: Execution, expectedMs: number): Promise<Outcome> {
  const { plan, rendered, facts, mode, prepared, signal, sharing } = execution
  const { before } = transactionSteps(facts, mode)
  const { main, estimate } = rendered
  const own: Step[] = [...(estimate === undefined ? [] : [estimate]), { ...main, formats: mainFormats }]
  const { rows, tookMs } = await pool.runShared([...before, ...own], prepared, expectedMs, signal)
  const outcome = read(rows.slice(before.length), rendered, plan, undefined)
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
          const outcome = counted(outcomeOf(coming.head, nothing))
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
  const outcome = read(results.slice(first), rendered, plan, counted)
  checkOutcome(plan, outcome)
  return outcome
}

function run(pool: Pool, execution: Execution): Promise<Outcome> {
  const { facts, mode, prepared, signal, sharing } = execution
  const { before, after } = transactionSteps(facts, mode)
  return transact(pool, signal, async connection => {
    const began = performance.now()
    const outcome = await runOn(connection, execution, before, after)
    sharing?.onTook(performance.now() - began, outcome.body.length)
    if (mode.end === 'decide') await connection.run(endSteps('commit'), prepared)
    return outcome
  })
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
    [...before, { text: `EXPLAIN (FORMAT JSON) ${text}`, values, isUnique: true }],
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

/** From the rows of a request's own statements; `counted` is how many a write of its own has touched. */
function read(
  results: Rows,
  { write, estimate, isExplain }: Rendered,
  plan: Plan,
  counted: number | undefined,
): Outcome {
  const main = results[(estimate === undefined ? 0 : 1) + (write === undefined ? 0 : 1)] ?? []
  if (isExplain) return explainOutcome(main)
  const outcome = outcomeOf(main[0])
  if (counted !== undefined) return { ...outcome, rows: counted }
  return estimate === undefined ? outcome : withEstimate(outcome, estimatedRows(text(results[0]?.[0]?.[0])), plan)
}
