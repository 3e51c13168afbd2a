/** How many rows of a table filters accept, as the planner estimates. The estimates are kept for a while, by the filters with their values. */
import { createHash } from 'node:crypto'
import { SieveCache } from '../../cache/sieve.ts'
import { onlyCell } from '../../postgres/cells.ts'
import { qualified } from '../../postgres/quote.ts'
import type { Parameters } from './parameters.ts'
import type { DescribedTable } from './table.ts'
import type { FilterCondition, RunStatement } from './types.ts'

const mostKept = 2_000
const keptMs = 60_000

type Kept = { readonly rows: number; readonly until: number }

export class Sizes {
  readonly #run: RunStatement
  readonly #now: () => number
  readonly #kept = new SieveCache<Kept>(mostKept)

  constructor(run: RunStatement, now: () => number) {
    this.#run = run
    this.#now = now
  }

  /** @throws DatabaseError, ConnectionFailure */
  async matching(
    described: DescribedTable,
    condition: FilterCondition,
    parameters: Parameters,
    signal: AbortSignal,
  ): Promise<number> {
    const statement = estimate(described, condition, parameters)
    const key = keyOf(statement)
    const kept = this.#kept.get(key)
    if (kept !== undefined && kept.until > this.#now()) return kept.rows
    const rows = plannedRows(onlyCell(await this.#run(statement, signal)))
    this.#keep(key, rows)
    return rows
  }

  /** An exact scan has found so few. */
  learn(described: DescribedTable, condition: FilterCondition, parameters: Parameters, rows: number): void {
    this.#keep(keyOf(estimate(described, condition, parameters)), rows)
  }

  #keep(key: string, rows: number): void {
    this.#kept.set(key, { rows, until: this.#now() + keptMs })
  }
}

function estimate({ table, vector }: DescribedTable, condition: FilterCondition, { values }: Parameters) {
  const filter = condition === undefined ? '' : ` AND ${condition}`
  return {
    text: `EXPLAIN (FORMAT JSON) SELECT FROM ${qualified(table)} AS t WHERE ${vector.expression} IS NOT NULL${filter}`,
    values,
  }
}

/** Filters can be long. */
const keyOf = ({ text, values }: { readonly text: string; readonly values: readonly string[] }): string =>
  createHash('sha256')
    .update(JSON.stringify([text, values]))
    .digest('base64')

function plannedRows(plan: string | undefined): number {
  const [first] = JSON.parse(plan ?? '[]') as readonly { readonly Plan?: { readonly 'Plan Rows'?: number } }[] // as EXPLAIN prints it
  return first?.Plan?.['Plan Rows'] ?? 0
}
