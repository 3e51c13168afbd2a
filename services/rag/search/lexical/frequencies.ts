/**
 * The number of rows that contain a term. For a frequent term it comes from the statistics of ANALYZE, for other terms
 * the index counts. Values are cached for some time in limited memory.
 */
import { LRUCache } from 'lru-cache'
import { cellsOf } from '../../../postgres/cells.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'
import { postingsOf, postingsStatement } from './postings.ts'
import { countsStatement } from './statements.ts'
import type { Run, TableStatistics } from './statistics.ts'

/** An entry takes about 200 bytes. */
const maximumCached = 20_000
const lifetimeMs = 300_000
/** The maximum count. More frequent terms have little weight, so their exact count does not matter. */
const mostCounted = 2_000

export class Frequencies {
  readonly #table: SearchedTable
  readonly #index: InvertedIndex
  readonly #cached: LRUCache<string, { readonly rows: number }>

  constructor(table: SearchedTable, index: InvertedIndex, now: () => number) {
    this.#table = table
    this.#index = index
    this.#cached = new LRUCache({ max: maximumCached, ttl: lifetimeMs, ttlResolution: 0, perf: { now } })
  }

  /** Returns the number of rows for each lexeme, in the same order. */
  async of(lexemes: readonly string[], statistics: TableStatistics, run: Run): Promise<readonly number[]> {
    const rows = new Map<string, number>()
    for (const lexeme of lexemes) {
      const share = statistics.frequent.get(lexeme)
      const known = share === undefined ? this.#cached.get(lexeme)?.rows : Math.round(share * statistics.rows)
      if (known !== undefined) rows.set(lexeme, known)
    }
    const unknown = lexemes.filter(lexeme => !rows.has(lexeme))
    const counts = unknown.length === 0 ? [] : await this.#count(unknown, statistics, run)
    for (const [index, lexeme] of unknown.entries()) {
      const counted = counts[index] ?? 0
      rows.set(lexeme, counted)
      this.#cached.set(lexeme, { rows: counted })
    }
    return lexemes.map(lexeme => rows.get(lexeme) ?? 0)
  }

  async #count(lexemes: readonly string[], statistics: TableStatistics, run: Run): Promise<readonly number[]> {
    // In a partitioned table, only a part of the indexes may find a row.
    const postings =
      this.#table.kind === 'p'
        ? undefined
        : postingsOf(await run(postingsStatement(this.#table, this.#index, lexemes)), lexemes.length)
    if (postings !== undefined) return postings
    const counts = cellsOf(await run(countsStatement(this.#table, this.#index, lexemes, mostCounted)))
    return counts.map(cells => expectedRows(cells.number('rows'), statistics))
  }
}

/**
 * A count at its limit means that there are more rows. But there are at most as many as the rarest frequent term has.
 */
function expectedRows(count: number, { rows, rarerThan }: TableStatistics): number {
  if (count < mostCounted) return count
  return Math.round(Math.sqrt(mostCounted * Math.max(mostCounted, rows * rarerThan)))
}
