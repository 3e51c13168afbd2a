/** In how many rows terms are: from the statistics of ANALYZE if they are frequent, else counted by the index, and kept for a while in bounded memory. */
import { LRUCache } from 'lru-cache'
import { cellsOf } from '../../../postgres/cells.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'
import { postingsOf, postingsStatement } from './postings.ts'
import { countsStatement } from './statements.ts'
import type { Run, TableStatistics } from './statistics.ts'

/** One takes some 200 bytes. */
const mostKept = 20_000
const keptMs = 300_000
/** Where rows are counted, further would take longer than it is worth: what is more frequent weighs little. */
const mostCounted = 2_000

export class Frequencies {
  readonly #table: SearchedTable
  readonly #index: InvertedIndex
  readonly #kept: LRUCache<string, { readonly rows: number }>

  constructor(table: SearchedTable, index: InvertedIndex, now: () => number) {
    this.#table = table
    this.#index = index
    this.#kept = new LRUCache({ max: mostKept, ttl: keptMs, ttlResolution: 0, perf: { now } })
  }

  /** Rows of each of the lexemes, in their order. */
  async of(lexemes: readonly string[], statistics: TableStatistics, run: Run): Promise<readonly number[]> {
    const rows = new Map<string, number>()
    for (const lexeme of lexemes) {
      const share = statistics.frequent.get(lexeme)
      const known = share === undefined ? this.#kept.get(lexeme)?.rows : Math.round(share * statistics.rows)
      if (known !== undefined) rows.set(lexeme, known)
    }
    const unknown = lexemes.filter(lexeme => !rows.has(lexeme))
    const counts = unknown.length === 0 ? [] : await this.#count(unknown, statistics, run)
    for (const [place, lexeme] of unknown.entries()) {
      const counted = counts[place] ?? 0
      rows.set(lexeme, counted)
      this.#kept.set(lexeme, { rows: counted })
    }
    return lexemes.map(lexeme => rows.get(lexeme) ?? 0)
  }

  async #count(lexemes: readonly string[], statistics: TableStatistics, run: Run): Promise<readonly number[]> {
    // Of a partitioned table, one row may come from a part of its indexes.
    const postings =
      this.#table.kind === 'p'
        ? undefined
        : postingsOf(await run(postingsStatement(this.#table, this.#index, lexemes)), lexemes.length)
    if (postings !== undefined) return postings
    const counts = cellsOf(await run(countsStatement(this.#table, this.#index, lexemes, mostCounted)))
    return counts.map(cells => expectedRows(cells.number('rows'), statistics))
  }
}

/** A count that has reached its limit says that there are more; not more than the rarest of the frequent terms has. */
function expectedRows(count: number, { rows, rarerThan }: TableStatistics): number {
  if (count < mostCounted) return count
  return Math.round(Math.sqrt(mostCounted * Math.max(mostCounted, rows * rarerThan)))
}
