/** Converts filters to SQL. Values are always parameters. Only names of existing columns become part of the text. */
import { quoteIdentifier } from '../../postgres/quote.ts'
import { RagError } from '../errors.ts'
import type { Condition, Filter } from '../request/filter.ts'
import type { Parameters } from './parameters.ts'

/** SQL type names: the column's type with domains resolved, and the type's array type if it has one. */
export type ColumnType = { readonly name: string; readonly array: string | undefined }

/** The columns that filters may use, by name. */
export type FilterColumns = ReadonlyMap<string, ColumnType>

type Value = string | number | boolean

/**
 * Returns a condition in parentheses, or undefined if the filter accepts every row.
 * @throws RagError INVALID_REQUEST for a missing column, and for a pattern that LIKE refuses
 */
export function filterSql(
  { conditions, logic }: Filter,
  columns: FilterColumns,
  parameters: Parameters,
  path = 'filter',
): string | undefined {
  if (conditions.length === 0) return undefined
  const parts = conditions.map((condition, index) =>
    conditionSql(condition, columns, parameters, `${path}.conditions[${index}]`),
  )
  return `(${parts.join(` ${logic} `)})`
}

function conditionSql(condition: Condition, columns: FilterColumns, parameters: Parameters, path: string): string {
  const type = columns.get(condition.column)
  if (type === undefined) {
    throw new RagError('INVALID_REQUEST', `${path}.column: unknown column ${JSON.stringify(condition.column)}`)
  }
  const name = `t.${quoteIdentifier(condition.column)}`
  const { operator } = condition
  switch (operator) {
    case 'IS NULL':
    case 'IS NOT NULL':
      return `${name} ${operator}`
    case 'IN':
      return listSql(`${name} =`, 'ANY', 'OR', condition.value, type, parameters)
    case 'NOT IN':
      return listSql(`${name} <>`, 'ALL', 'AND', condition.value, type, parameters)
    case 'LIKE':
    case 'ILIKE':
      return `${name} ${operator} ${parameters.add(pattern(String(condition.value), path), 'pg_catalog.text')}`
    default:
      return `${name} ${operator === '!=' ? '<>' : operator} ${parameters.add(String(condition.value), type.name)}`
  }
}

/** All values are one parameter, so lists of any length have the same statement text. */
function listSql(
  compared: string,
  quantifier: 'ANY' | 'ALL',
  logic: 'OR' | 'AND',
  values: readonly Value[],
  { name, array }: ColumnType,
  parameters: Parameters,
): string {
  if (values.length === 0) return quantifier === 'ANY' ? 'false' : 'true'
  if (array !== undefined) return `${compared} ${quantifier} (${parameters.add(arrayLiteral(values), array)})`
  return `(${values.map(value => `${compared} ${parameters.add(String(value), name)}`).join(` ${logic} `)})`
}

/** An array in Postgres's syntax. Each element is in quotes (manual section 8.15.2). */
export const arrayLiteral = (values: readonly Value[]): string =>
  `{${values.map(value => `"${String(value).replace(/["\\]/g, '\\$&')}"`).join(',')}}`

/**
 * Postgres refuses a pattern that ends with a single backslash, but only when it reads a row. The check does not use a
 * regular expression, which would read each backslash of a long text repeatedly.
 */
function pattern(text: string, path: string): string {
  let end = text.length
  while (text.charAt(end - 1) === '\\') end -= 1
  if ((text.length - end) % 2 === 0) return text
  throw new RagError('INVALID_REQUEST', `${path}.value: must not end with a backslash that escapes nothing`)
}
