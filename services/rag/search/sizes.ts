/**
 * The planner's estimates of how many rows of a table filters accept. They are cached for some time, by the filters and
 * their values.
 */
import { createHash } from 'node:crypto'
import { SieveCache } from '../../cache/sieve.ts'
import { onlyCell } from '../../postgres/cells.ts'
import { qualified } from '../../postgres/quote.ts'
import type { Parameters } from './parameters.ts'
import type { DescribedTable } from './table.ts'
import type { FilterCondition, RunStatement } from './types.ts'

const maximumCached = 2_000
const lifetimeMs = 60_000

type CachedSize = { readonly rows: number; readonly until: number }

export class Sizes {
  readonly #run: RunStatement
  readonly #now: () => number
  readonly #cached = new SieveCache<CachedSize>(maximumCached)

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
    const cached = this.#cached.get(key)
    if (cached !== undefined && cached.until > this.#now()) return cached.rows
    const rows = plannedRows(onlyCell(await this.#run(statement, signal)))
    this.#keep(key, rows)
    return rows
  }

  /** Records the exact number of rows, which an exact scan has found. */
  record(described: DescribedTable, condition: FilterCondition, parameters: Parameters, rows: number): void {
    this.#keep(keyOf(estimate(described, condition, parameters)), rows)
  }

  #keep(key: string, rows: number): void {
    this.#cached.set(key, { rows, until: this.#now() + lifetimeMs })
  }
}

function estimate({ table, vector }: DescribedTable, condition: FilterCondition, { values }: Parameters) {
  const filter = condition === undefined ? '' : ` AND ${condition}`
  return {
    text: `EXPLAIN (FORMAT JSON) SELECT FROM ${qualified(table)} AS t WHERE ${vector.expression} IS NOT NULL${filter}`,
    values,
  }
}

/** Filters can be long, so the key is a hash. */
const keyOf = ({ text, values }: { readonly text: string; readonly values: readonly string[] }): string =>
  createHash('sha256')
    .update(JSON.stringify([text, values]))
    .digest('base64')

function plannedRows(plan: string | undefined): number {
  // EXPLAIN prints this form
  const [first] = JSON.parse(plan ?? '[]') as readonly { readonly Plan?: { readonly 'Plan Rows'?: number } }[]
  return first?.Plan?.['Plan Rows'] ?? 0
}
