/**
 * Reads from the index alone how many rows contain a term. Postgres has no function for it, and counting would read
 * each row. But EXPLAIN ANALYZE reports how many rows a bitmap scan of the index has found before it reads any. This
 * number is exact, and costs reading one row of the table for each term.
 */
import { z } from 'zod'
import { type NamedRows, type OwnStatement, onlyCell } from '../../../postgres/cells.ts'
import { qualified } from '../../../postgres/quote.ts'
import type { SearchedTable } from '../types.ts'
import type { InvertedIndex } from './indexes.ts'
import { anyOf } from './tsquery.ts'

/**
 * Without MATERIALIZED, the planner would read the table for one row. The planner does not know the query in advance,
 * so it uses the index.
 */
export const postingsStatement = (
  table: SearchedTable,
  { vector }: InvertedIndex,
  lexemes: readonly string[],
): OwnStatement => ({
  text: `EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF, BUFFERS OFF, FORMAT JSON)
${lexemes
  .map(
    (_, index) =>
      `(WITH m AS MATERIALIZED (SELECT FROM ${qualified(table)} AS t WHERE ${vector} @@ (SELECT $${index + 1}::tsquery)) SELECT 1 FROM m LIMIT 1)`,
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

/** Returns the number of rows for each term, in order. Returns undefined if Postgres did not use only index scans. */
export function postingsOf(rows: NamedRows, terms: number): readonly number[] | undefined {
  const parsed = explained.safeParse(JSON.parse(onlyCell(rows) ?? 'null'))
  if (!parsed.success) return undefined
  const [{ Plan: top }] = parsed.data
  const parts = top['Node Type'] === 'Append' ? (top.Plans ?? []) : [top]
  const counts = parts.map(bitmapRows)
  return counts.length === terms && counts.every(count => count !== undefined) ? counts : undefined
}

/** Returns the rows of the only bitmap index scan in a plan. */
function bitmapRows(plan: Node): number | undefined {
  if (plan['Node Type'] === 'Bitmap Index Scan') return plan['Actual Rows']
  const counts = (plan.Plans ?? []).map(bitmapRows).filter(count => count !== undefined)
  return counts.length === 1 ? counts[0] : undefined
}
