/**
 * Describes a searched table from its settings and the catalog: how its rows are identified, its vector column, and the
 * indexes to use.
 */
import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { TableSettings } from '../configuration/types.ts'
import { RagError } from '../errors.ts'
import type { CatalogColumn, CatalogIndex, CatalogTable } from './catalog.ts'
import { arrayLiteral, type ColumnType } from './filter-condition.ts'
import type { Parameters } from './parameters.ts'
import type { SearchedTable } from './types.ts'

type VectorType = 'vector' | 'halfvec'
export type Operator = '<=>' | '<->' | '<#>' | '<+>'

export type VectorIndex = {
  readonly name: string
  readonly method: string
  readonly operator: Operator
  /** The indexed expression as SQL, without the table's alias. */
  readonly expression: string
  /** The type of the indexed expression. */
  readonly type: VectorType
  readonly lists: number
  /** Whether the index is partial. Then the planner must still check that the search implies the index's condition. */
  readonly isPartial: boolean
}

export type VectorColumn = {
  /** An SQL expression over the alias `t`. */
  readonly expression: string
  readonly type: VectorType
  /** The quoted schema of the type and its operators. */
  readonly schema: string
  /** undefined: the column accepts vectors of any length. */
  readonly dimensions: number | undefined
  /** The indexes, best first. */
  readonly indexes: readonly VectorIndex[]
}

/** How rows are identified. */
type RowIdentity = {
  /** Columns over the alias `t` that the expressions of a row and its id use. */
  readonly columns: readonly string[]
  /** The order of rows with equal distance. */
  readonly tie: string
  /** Returns a condition that finds rows by the values of their `rowExpression`. */
  readonly find: (rows: readonly string[], parameters: Parameters) => string
  /** Whether ids are unique. */
  readonly hasUniqueIds: boolean
}

export type DescribedTable = {
  readonly table: SearchedTable
  readonly number: number
  readonly vector: VectorColumn
  readonly identity: RowIdentity
  /** The version of pgvector; 0 if unknown. */
  readonly pgvector: number
  readonly warnings: readonly string[]
}

/** Type names are never aliases such as `character`, because a cast would treat it as `character(1)`. */
const columnType = ({ typeSchema, typeName: name, arrayName }: CatalogColumn): ColumnType => ({
  name: qualified({ schema: typeSchema, name }),
  array: arrayName === undefined ? undefined : qualified({ schema: typeSchema, name: arrayName }),
})

export const shownName = ({ schema, name }: Pick<TableSettings, 'schema' | 'name'>): string =>
  schema === undefined ? name : `${schema}.${name}`

export const shownTable = ({ schema, name }: SearchedTable): string => `${schema}.${name}`

/** @throws RagError EXECUTION_ERROR with the table's problem */
export function describeTable(settings: TableSettings, found: CatalogTable | undefined): DescribedTable {
  const shown = shownName(settings)
  const fail = (rule: string) => new RagError('EXECUTION_ERROR', `table ${shown}: ${rule}`)
  if (found === undefined) throw fail('does not exist')
  if (!found.isUsable) throw fail(`the role ${found.role} has no USAGE on schema ${found.schema}`)
  const column = (name: string) => {
    const one = found.columns.find(other => other.name === name)
    if (one === undefined) throw fail(`has no column ${name}`)
    if (!one.isReadable) throw fail(`the role ${found.role} may not read column ${name}`)
    return one
  }
  const text = column(settings.textColumn)
  const vector = column(settings.vectorColumn)
  if (!isVectorType(vector.typeName)) {
    throw fail(`column ${vector.name} is of type ${vector.typeName}; only vector and halfvec can be searched`)
  }
  const identity = identityOf(settings, found)
  if (identity === undefined)
    throw fail(`is a view without column ${settings.idColumn}; set id_column to a column that identifies its rows`)
  const version = found.pgvector ?? '0'
  return {
    table: {
      schema: found.schema,
      name: found.name,
      kind: found.kind,
      oid: found.oid,
      textColumn: text.name,
      vectorColumn: vector.name,
      idExpression: identity.id,
      rowExpression: identity.row,
      columns: new Map(found.columns.filter(one => one.isReadable).map(one => [one.name, columnType(one)])),
    },
    number: vector.number,
    vector: {
      expression: `t.${quoteIdentifier(vector.name)}`,
      type: vector.typeName,
      schema: quoteIdentifier(vector.typeSchema),
      dimensions: vector.modifier > 0 ? vector.modifier : undefined,
      indexes: [],
    },
    identity,
    pgvector: versionNumber(version),
    warnings: [
      ...identity.warnings.map(warning => `table ${shown}: ${warning}`),
      ...(versionNumber(version) < 803
        ? [`pgvector ${version} has known bugs that corrupt indexes or return wrong rows; update it to 0.8.3 or later`]
        : []),
    ],
  }
}

/** Converts 0.8.3 to 803. */
const versionNumber = (text: string): number => {
  const [major = 0, minor = 0, patch = 0] = text.split('.').map(part => Number.parseInt(part, 10) || 0)
  return major * 10_000 + minor * 100 + patch
}

const isVectorType = (name: string): name is VectorType => name === 'vector' || name === 'halfvec'

type Identity = RowIdentity & { readonly id: string; readonly row: string; readonly warnings: readonly string[] }

/** Returns undefined if the rows of a view cannot be identified. */
function identityOf({ idColumn }: TableSettings, { kind, hasChildren, columns }: CatalogTable): Identity | undefined {
  const hasRowIds = kind === 'r' || kind === 'm' || kind === 'p'
  const own = columns.find(({ name, isReadable }) => name === idColumn && isReadable)
  if (!hasRowIds) return own && identityByColumn(own)
  const rowId = rowIdOf(kind === 'p' || hasChildren)
  const key = columns.filter(one => one.keyPosition > 0).toSorted((one, other) => one.keyPosition - other.keyPosition)
  // Each child table has its own keys, so a parent's key is not unique.
  const isKeyUnique = kind === 'p' || !hasChildren
  const named = (keys: readonly CatalogColumn[]) => keys.map(({ name }) => `t.${quoteIdentifier(name)}`)
  if (own !== undefined) {
    const [name = ''] = named([own])
    return {
      ...rowId,
      columns: [...rowId.columns, name],
      id: `coalesce(${name}::pg_catalog.text, ${rowId.row})`,
      hasUniqueIds: isKeyUnique && key.length === 1 && key[0]?.name === idColumn,
      warnings: [],
    }
  }
  const missing = `has no column ${idColumn}; `
  if (key.length > 0 && key.every(({ isReadable }) => isReadable)) {
    const names = named(key)
    const id = names.map(name => `${name}::pg_catalog.text`).join(" || ',' || ")
    return {
      ...rowId,
      columns: [...rowId.columns, ...names],
      id,
      // The id joins the values of several columns with commas, so it may not be unique.
      hasUniqueIds: isKeyUnique && key.length === 1,
      warnings: [`${missing}its primary key identifies documents`],
    }
  }
  return {
    ...rowId,
    id: rowId.row,
    hasUniqueIds: true,
    warnings: [`${missing}ctid identifies documents, and changes with each update of a row`],
  }
}

function identityByColumn(column: CatalogColumn): Identity {
  const name = `t.${quoteIdentifier(column.name)}`
  const text = `${name}::pg_catalog.text`
  const { array } = columnType(column)
  return {
    id: text,
    row: text,
    columns: [name],
    tie: name,
    find: (rows, parameters) =>
      array === undefined
        ? `${text} = ANY (${parameters.add(arrayLiteral(rows), 'pg_catalog.text[]')})`
        : `${name} = ANY (${parameters.add(arrayLiteral(rows), array)})`,
    hasUniqueIds: false,
    warnings: [],
  }
}

/**
 * Identifies rows by their physical location, which is stable within a snapshot. With partitions or child tables, a
 * ctid is not unique.
 */
function rowIdOf(hasSeveral: boolean): Omit<Identity, 'id' | 'hasUniqueIds' | 'warnings'> {
  const own = 't.ctid::pg_catalog.text'
  const find = (rows: readonly string[], parameters: Parameters) =>
    `t.ctid = ANY (${parameters.add(arrayLiteral(rows), 'pg_catalog.tid[]')})`
  if (!hasSeveral) return { row: own, columns: ['t.ctid'], tie: 't.ctid', find }
  const row = `t.tableoid::pg_catalog.text || ' ' || ${own}`
  return {
    row,
    columns: ['t.tableoid', 't.ctid'],
    tie: 't.tableoid, t.ctid',
    find: (rows, parameters) => {
      const rowIds = rows.map(one => one.slice(one.indexOf(' ') + 1))
      return `${find(rowIds, parameters)} AND ${row} = ANY (${parameters.add(arrayLiteral(rows), 'pg_catalog.text[]')})`
    },
  }
}

/** Best first: in the same time, graph indexes find more than list indexes. */
const methods = ['hnsw', 'vchordrq', 'diskann', 'ivfflat']
const operators = ['<=>', '<#>', '<->', '<+>'] as const
const isOperator = (name: string): name is Operator => operators.some(one => one === name)

/** Returns the same table with the indexes that can search its vectors. */
export function withIndexes(described: DescribedTable, found: readonly CatalogIndex[]): DescribedTable {
  const { vector, table } = described
  const rank = ({ method, isPartial, operator }: VectorIndex) => {
    const position = methods.indexOf(method)
    return (isPartial ? 100 : 0) + (position === -1 ? methods.length : position) * 10 + operators.indexOf(operator)
  }
  const indexes = found
    .map(index => vectorIndex(index, table.vectorColumn, vector))
    .filter(index => index !== undefined)
    .toSorted((one, other) => rank(one) - rank(other))
  return { ...described, vector: { ...vector, indexes } }
}

/**
 * Returns undefined if the index is on another column, or on an expression other than a cast of the column. Also
 * returns undefined for an unsupported type or operator.
 */
function vectorIndex(index: CatalogIndex, column: string, { schema }: VectorColumn): VectorIndex | undefined {
  const { expression, operator, typeName: type, name, method, lists, isPartial } = index
  if (!isOperator(operator) || !isVectorType(type)) return undefined
  if (quoteIdentifier(index.operatorSchema) !== schema || quoteIdentifier(index.typeSchema) !== schema) return undefined
  if (expression !== undefined && !isCastOf(column, expression)) return undefined
  const own = `t.${quoteIdentifier(column)}`
  return {
    name,
    method,
    operator,
    expression: expression === undefined ? own : `(${expression})`,
    type,
    lists,
    isPartial,
  }
}

/** Whether an expression, as Postgres prints it, is for example `(column)::halfvec(384)`. */
function isCastOf(column: string, expression: string): boolean {
  const cast =
    /^\(*((?:"(?:[^"]|"")+")|[^"()\s]+)\)*::(?:(?:"(?:[^"]|"")+"|[^".()\s]+)\.)?(?:halfvec|vector)\(\d+\)\)*$/.exec(
      expression,
    )
  const name = cast?.[1]
  return name !== undefined && (name === column || name === quoteIdentifier(column))
}
