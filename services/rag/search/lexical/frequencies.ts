/** In how many rows terms are: from the statistics of ANALYZE if they are frequent, else counted by the index, and kept for a while in bounded memory. */
import { LRUCache } from 'lru-cache'
import { cellsOf } from '../../../postgres/cells.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'
import { countsStatement } from './statements.ts'
import type { Run, TableStatistics } from './statistics.ts'

/** One takes some 200 bytes. */
const mostKept = 20_000
const keptMs = 300_000
/** Counting further would take longer than it is worth: what is more frequent weighs little. */
const mostCounted = 2_000

type Kept = { readonly rows: number }

export class Frequencies {
  readonly #table: SearchedTable
  readonly #index: InvertedIndex
  readonly #kept: LRUCache<string, Kept>

  constructor(table: SearchedTable, index: InvertedIndex, now: () => number) {
    this.#table = table
    this.#index = index
    this.#kept = new LRUCache({ max: mostKept, ttl: keptMs, ttlResolution: 0, perf: { now } })
  }

  /** Rows of each of the lexemes, in their order. */
  async of(lexemes: readonly string[], statistics: TableStatistics, run: Run): Promise<readonly number[]> {
    const unknown = lexemes.filter(lexeme => !statistics.frequent.has(lexeme) && !this.#kept.has(lexeme))
    const counted = new Map<string, number>()
    if (unknown.length > 0) {
      const counts = cellsOf(await run(countsStatement(this.#table, this.#index, unknown, mostCounted)))
      for (const [place, lexeme] of unknown.entries()) {
        const rows = expectedRows(counts[place]?.number('rows') ?? 0, statistics)
        counted.set(lexeme, rows)
        this.#kept.set(lexeme, { rows })
      }
    }
    return lexemes.map(lexeme => {
      const share = statistics.frequent.get(lexeme)
      if (share !== undefined) return Math.round(share * statistics.rows)
      return counted.get(lexeme) ?? this.#kept.get(lexeme)?.rows ?? 0
    })
  }
}

/** A count that has reached its limit says that there are more; not more than the rarest of the frequent terms has. */
function expectedRows(count: number, { rows, rarerThan }: TableStatistics): number {
  if (count < mostCounted) return count
  return Math.round(Math.sqrt(mostCounted * Math.max(mostCounted, rows * rarerThan)))
}
