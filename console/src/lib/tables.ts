/** Builds the SQL of the table browser. Names are quoted, and values are parameters. Pure. */
type TableName = { schema: string; name: string }
export type Column = {
  name: string
  type: string
  /** Whether the column is part of the primary key. */
  isKey: boolean
  isNullable: boolean
  /** Whether Postgres always computes the values. */
  isGenerated: boolean
  /** Whether Postgres provides a value if a new row has none. */
  hasDefault: boolean
}

export const operators = ['contains', 'equals', 'differs', 'less', 'greater', 'null', 'notNull'] as const
export type Operator = (typeof operators)[number]
export type Filter = { column: string; operator: Operator; value: string }
export type Sort = { column: string; isDescending: boolean }

/** Quotes a name. A name can contain every character except NUL. */
export const quotedName = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Reads the columns and the estimated number of rows of user tables, views and foreign tables. */
export const tablesStatement = `SELECT n.nspname, c.relname, c.relkind, c.reltuples::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
  EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
  NOT a.attnotnull, a.attgenerated <> '' OR a.attidentity = 'a', a.atthasdef OR a.attidentity <> ''
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^(pg_|information_schema$|espalier$)'
ORDER BY n.nspname <> 'public', n.nspname, c.relname, a.attnum`

export type Table = TableName & { kind: string; rows: number | undefined; columns: Column[] }

const isStored = (kind: string): boolean => kind === 'r' || kind === 'p'

/** Returns whether users can change rows. A change needs the primary key to find its row. */
export const isEditable = ({ kind, columns }: Table): boolean => isStored(kind) && columns.some(({ isKey }) => isKey)

/** Groups the rows of `tablesStatement` by table. A table that was never analyzed has no estimate. */
export function tablesIn(rows: readonly (readonly (string | null)[])[]): Table[] {
  const tables = new Map<string, Table>()
  for (const [schema, name, kind, estimate, column, type, ...flags] of rows) {
    if (!schema || !name || !column) continue
    const key = JSON.stringify([schema, name])
    const count = Number(estimate)
    const isKnown = estimate !== null && count >= 0 && (isStored(kind ?? '') || kind === 'm')
    const table = tables.get(key) ?? { schema, name, kind: kind ?? '', rows: isKnown ? count : undefined, columns: [] }
    const [isKey = false, isNullable = false, isGenerated = false, hasDefault = false] = flags.map(flag => flag === 't')
    table.columns.push({ name: column, type: type ?? '', isKey, isNullable, isGenerated, hasDefault })
    tables.set(key, table)
  }
  return [...tables.values()]
}

const compared = { equals: '=', differs: '<>', less: '<', greater: '>' } as const

/** Returns the condition of a filter. It compares values as the column's type, so that 9 is less than 10. */
function conditionOf({ column, operator, value }: Filter, types: ReadonlyMap<string, string>, number: number) {
  const name = quotedName(column)
  if (operator === 'null') return { text: `${name} IS NULL`, values: [] }
  if (operator === 'notNull') return { text: `${name} IS NOT NULL`, values: [] }
  if (operator === 'contains') {
    const escaped = value.replaceAll(/[\\%_]/g, '\\$&')
    return { text: `${name}::text ILIKE $${number}`, values: [`%${escaped}%`] }
  }
  // `format_type` has already quoted the name of the type if necessary.
  return { text: `${name} ${compared[operator]} $${number}::text::${types.get(column) ?? 'text'}`, values: [value] }
}

type Choice = { filters: readonly Filter[]; sort: Sort | undefined; limit: number; offset: number }

export const tableText = ({ schema, name }: TableName): string => `${quotedName(schema)}.${quotedName(name)}`

/** Orders by the chosen column, then by the primary key. Without a key, a row may be on two pages. */
function orderOf({ columns }: Table, sort: Sort | undefined): string {
  const chosen = columns.find(({ name }) => name === sort?.column)
  const first =
    chosen === undefined ? [] : [`${quotedName(chosen.name)}${sort?.isDescending ? ' DESC NULLS LAST' : ''}`]
  const keys = columns.filter(column => column.isKey && column !== chosen).map(({ name }) => quotedName(name))
  const order = [...first, ...keys]
  return order.length === 0 ? '' : `\nORDER BY ${order.join(', ')}`
}

/**
 * Returns the statement that reads rows of a table. Ignores columns that the table does not have. If users can change
 * rows, the last column is `xmin`: the version of a row, which changes with every update.
 */
export function rowsStatement(table: Table, { filters, sort, limit, offset }: Choice) {
  const types = new Map(table.columns.map(({ name, type }) => [name, type]))
  const parameters: string[] = []
  const conditions = filters
    .filter(({ column }) => types.has(column))
    .map(filter => {
      const { text, values } = conditionOf(filter, types, parameters.length + 1)
      parameters.push(...values)
      return text
    })
  const where = conditions.length === 0 ? '' : `\nWHERE ${conditions.join(' AND ')}`
  // Columns are selected by name: a change of the table must not move values to other columns.
  const names = table.columns.map(({ name }) => quotedName(name))
  const columns = isEditable(table) ? [...names, 'xmin'].join(', ') : '*'
  const page = `${orderOf(table, sort)}\nLIMIT ${limit} OFFSET ${offset}`
  const text = `SELECT ${columns} FROM ${tableText(table)}${where}${page}`
  return { text, parameters }
}
