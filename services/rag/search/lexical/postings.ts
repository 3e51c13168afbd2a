/**
 * In how many rows terms are, by the index alone. Postgres has no function for it, and counting rows reads each of them. But EXPLAIN ANALYZE says how many rows a bitmap scan of the index
 * has found, before any is read: it is exact, and reads one row of the table for each term.
 */
import { z } from 'zod'
import { type NamedRows, type OwnStatement, onlyCell } from '../../../postgres/cells.ts'
import { qualified } from '../../../postgres/quote.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'
import { anyOf } from './tsquery.ts'

/** Materialized: the planner would otherwise read the table for one row. A query that it does not know in advance gets the index. */
export const postingsStatement = (
  table: SearchedTable,
  { vector }: InvertedIndex,
  lexemes: readonly string[],
): OwnStatement => ({
  text: `EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF, BUFFERS OFF, FORMAT JSON)
${lexemes
  .map(
    (_, place) =>
      `(WITH m AS MATERIALIZED (SELECT FROM ${qualified(table)} AS t WHERE ${vector} @@ (SELECT $${place + 1}::tsquery)) SELECT 1 FROM m LIMIT 1)`,
  )
  .join('\nUNION ALL ')}`,
  values: lexemes.map(lexeme => anyOf([lexeme])),
})

type Node = {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly Plans?: readonly Node[] | undefined
}

const node: z.ZodType<Node> = z.lazy(() =>
  z.object({ 'Node Type': z.string(), 'Actual Rows': z.number(), Plans: z.array(node).optional() }),
)
const explained = z.tuple([z.object({ Plan: node })])

/** Rows of each of so many terms, in their order; undefined where Postgres has found some by other means. */
export function postingsOf(rows: NamedRows, terms: number): readonly number[] | undefined {
  const parsed = explained.safeParse(JSON.parse(onlyCell(rows) ?? 'null'))
  if (!parsed.success) return undefined
  const [{ Plan: top }] = parsed.data
  const parts = top['Node Type'] === 'Append' ? (top.Plans ?? []) : [top]
  const counts = parts.map(bitmapRows)
  return counts.length === terms && counts.every(count => count !== undefined) ? counts : undefined
}

/** Of the one bitmap scan of an index in a plan. */
function bitmapRows(plan: Node): number | undefined {
  if (plan['Node Type'] === 'Bitmap Index Scan') return plan['Actual Rows']
  const counts = (plan.Plans ?? []).map(bitmapRows).filter(count => count !== undefined)
  return counts.length === 1 ? counts[0] : undefined
}
