/**
 * Names of columns that statements add to those of a table. No column of the table has such a name: a configured filter
 * and the expression of an index name columns without a table. Pure.
 */
import { quoteIdentifier } from '../../postgres/quote.ts'
import type { SearchedTable } from './types.ts'

/** Quoted. */
export function ownName({ columns }: Pick<SearchedTable, 'columns'>, name: string): string {
  let own = `~${name}`
  while (columns.has(own)) own = `~${own}`
  return quoteIdentifier(own)
}
