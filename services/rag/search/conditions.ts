/** Combines the row restrictions of a request: the configured filter AND the request's filter. */
import type { TableFilter } from '../configuration/types.ts'
import type { Filter } from '../request/filter.ts'
import { filterSql } from './filter-condition.ts'
import type { Parameters } from './parameters.ts'
import type { FilterCondition, SearchedTable } from './types.ts'

/**
 * A configured text may end with a comment, so a line break follows it. The server has checked that the text is one
 * condition.
 */
const configuredSql = (filter: TableFilter, { columns }: SearchedTable, parameters: Parameters): FilterCondition =>
  filter.kind === 'sql' ? `(${filter.text}\n)` : filterSql(filter.filter, columns, parameters, 'configured filter')

/** @throws RagError INVALID_REQUEST, as `filterSql` does */
export function conditionOf(
  table: SearchedTable,
  configured: TableFilter | undefined,
  requested: Filter | undefined,
  parameters: Parameters,
): FilterCondition {
  const parts = [
    configured && configuredSql(configured, table, parameters),
    requested && filterSql(requested, table.columns, parameters),
  ].filter(part => part !== undefined)
  return parts.length === 0 ? undefined : parts.join(' AND ')
}
