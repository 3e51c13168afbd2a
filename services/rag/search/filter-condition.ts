/** Filters as SQL. Values are parameters always; only names of columns that the table has become part of the text. Pure. */
import { quoteIdentifier } from '../../postgres/quote.ts'
import { RagError } from '../errors.ts'
import type { Condition, Filter } from '../request/filter.ts'
import type { Parameters } from './parameters.ts'

/** The columns of a table that filters may use, by name, with their types as SQL names them. */
export type FilterColumns = ReadonlyMap<string, string>

/**
 * A condition in parentheses, or undefined if the filter lets every row through.
 * @throws RagError INVALID_REQUEST for a column that the table does not have
 */
export function filterSql(
  { conditions, logic }: Filter,
  columns: FilterColumns,
  parameters: Parameters,
  place = 'filter',
): string | undefined {
  if (conditions.length === 0) return undefined
  const parts = conditions.map((condition, index) =>
    conditionSql(condition, columns, parameters, `${place}.conditions[${index}]`),
  )
  return `(${parts.join(` ${logic} `)})`
}

function conditionSql(condition: Condition, columns: FilterColumns, parameters: Parameters, place: string): string {
  const type = columns.get(condition.column)
  if (type === undefined) {
    throw new RagError('INVALID_REQUEST', `${place}.column: there is no column ${JSON.stringify(condition.column)}`)
  }
  const name = `t.${quoteIdentifier(condition.column)}`
  const typed = (value: string | number | boolean) => parameters.add(String(value), type)
  switch (condition.operator) {
    case 'IS NULL':
    case 'IS NOT NULL':
      return `${name} ${condition.operator}`
    case 'IN':
    case 'NOT IN':
      if (condition.value.length === 0) return condition.operator === 'IN' ? 'false' : 'true'
      return `${name} ${condition.operator} (${condition.value.map(typed).join(', ')})`
    case 'LIKE':
    case 'ILIKE':
      return `${name} ${condition.operator} ${parameters.add(String(condition.value), 'text')}`
    default:
      return `${name} ${condition.operator === '!=' ? '<>' : condition.operator} ${typed(condition.value)}`
  }
}
