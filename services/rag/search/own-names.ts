/**
 * Names of columns that statements add to a table's own columns. No column of the table may have the same name, because
 * a configured filter and an index expression name columns without their table.
 */
import { quoteIdentifier } from '../../postgres/quote.ts'
import type { SearchedTable } from './types.ts'

/** Returns a quoted name. */
export function ownName({ columns }: Pick<SearchedTable, 'columns'>, name: string): string {
  let own = `~${name}`
  while (columns.has(own)) own = `~${own}`
  return quoteIdentifier(own)
}
