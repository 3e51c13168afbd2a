/** Reads a plan's result from its statements' rows, and decides whether to commit. Pure. */
import type { AnswerStream } from '../../http/message.ts'
import type { Row, Rows } from '../../postgres/run.ts'
import { notSingular, putOfAnotherRow, tooManyAffected } from '../errors/catalogue.ts'
import { checkRows } from '../limits/plan-limits.ts'
import type { Plan } from '../plan/types.ts'
import type { Rendered } from '../sql/index.ts'

/** A plan's result. */
export type Outcome = {
  readonly total: number | undefined
  readonly rows: number
  /** `key=eq.value` for each key column. */
  readonly location: readonly string[]
  readonly headers: string | undefined
  readonly status: string | undefined
  /** How many rows of an upsert existed before. */
  readonly updated: number
  readonly body: Buffer
  /** If the body is streamed, this replaces the body. */
  readonly stream: StreamedBody | undefined
}

/** A body whose transaction is still open. The caller must write or abandon it. */
type StreamedBody = {
  /** The length in bytes, if known. */
  readonly length: number | undefined
  writeTo(out: AnswerStream): Promise<void>
  abandon(): void
}

const nothing = Buffer.alloc(0)
const text = (cell: Buffer | null | undefined): string | undefined => cell?.toString('utf8')
const count = (cell: Buffer | null | undefined): number | undefined => {
  const found = text(cell)
  return found === undefined ? undefined : Number(found)
}

/** The elements of an array in Postgres's text form (manual, section 8.15.6). */
function arrayElements(literal: string): string[] {
  const elements = literal.slice(1, -1).match(/"(?:\\.|[^"\\])*"|[^,]+/gs) ?? []
  return elements.map(element => (element.startsWith('"') ? element.slice(1, -1).replace(/\\(.)/gs, '$1') : element))
}

export function outcomeOf(row: Row | undefined, body = row?.[6] ?? nothing): Outcome {
  const location = text(row?.[2])
  return {
    total: count(row?.[0]),
    rows: count(row?.[1]) ?? 0,
    location: location === undefined ? [] : arrayElements(location),
    headers: text(row?.[3]),
    status: text(row?.[4]),
    updated: count(row?.[5]) ?? 0,
    body,
    stream: undefined,
  }
}

/** Describes a streamed body, without the function that writes it. */
export const openOutcome = (head: Row | undefined): Outcome => outcomeOf(head, nothing)

const explainOutcome = (rows: readonly Row[]): Outcome => ({
  total: undefined,
  rows: 1,
  location: [],
  headers: undefined,
  status: undefined,
  updated: 0,
  body: Buffer.from(rows.map(row => text(row[0]) ?? '').join('\n')),
  stream: undefined,
})

/** How many rows Postgres expects, from EXPLAIN (FORMAT JSON). */
export function estimatedRows(json: string | undefined): number {
  const explained: unknown = JSON.parse(json ?? '[]')
  // EXPLAIN's JSON has a fixed form: a list with one object that has a plan.
  const [{ Plan }] = explained as [{ Plan: { 'Plan Rows': number } }]
  return Plan['Plan Rows']
}

/** Replaces a count that stopped at `db-max-rows` by the estimate. */
export function withEstimate(outcome: Outcome, estimate: number, plan: Plan): Outcome {
  if (plan.kind === 'write') return outcome
  const { total } = outcome
  if (plan.count === 'planned' || total === undefined) return { ...outcome, total: estimate }
  const isTruncated = plan.maximumRows === undefined || total > plan.maximumRows
  return isTruncated ? { ...outcome, total: Math.max(total, estimate) } : outcome
}

/**
 * Reads the result from the rows of a request's own statements. `counted`: the number of rows that its write affected.
 */
export function readOutcome(
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

/** @throws RestError if the transaction must be rolled back */
export function checkOutcome(plan: Plan, { rows }: Outcome): void {
  if (plan.body.explain !== undefined) return
  checkRows(plan, rows)
  if (plan.kind === 'write' && plan.write.kind === 'insert' && plan.write.isPut && rows !== 1) {
    throw putOfAnotherRow()
  }
  const most = plan.kind === 'read' ? undefined : plan.maximumAffected
  if (most !== undefined && rows > most) throw tooManyAffected(rows)
  if (plan.body.singular && rows !== 1) throw notSingular(rows)
}
