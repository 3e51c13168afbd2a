/**
 * SQL of similarity search: reads a table's columns, lists the tables with vectors, and finds the rows nearest to a
 * vector by each vector column. Quotes every name.
 */

import { cellsOf, type NamedRows, type OwnStatement } from '../postgres/cells.ts'
import { qualified, quoteIdentifier } from '../postgres/quote.ts'
import type { FoundRow } from './rank.ts'

type Metric = 'cosine' | 'l2' | 'inner_product'
const operators: Readonly<Record<Metric, string>> = { cosine: '<=>', l2: '<->', inner_product: '<#>' }

export type VectorColumn = {
  readonly name: string
  readonly type: string
  /** The schema of the vector type and its operators. */
  readonly typeSchema: string
  /** undefined: the column accepts vectors of any length. */
  readonly dimensions: number | undefined
  readonly comment: string | undefined
}

export type Table = {
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly vectors: readonly VectorColumn[]
  /** Columns with vector types that cannot be searched, such as sparsevec. */
  readonly otherVectors: readonly string[]
  readonly texts: readonly string[]
  readonly key: readonly string[]
  /** The version of pgvector, such as 0.8. */
  readonly version: number
  /** The number of lists of the column's largest IVFFlat index; 0 if it has none. */
  readonly lists: number
}

export type TableName = { readonly schema: string | undefined; readonly name: string; readonly isQuoted: boolean }

/** Parses `table` or `schema.table`. Parts may have double quotes as in SQL. */
export function parseTableName(text: string): TableName | undefined {
  const part = '("(?:[^"]|"")+"|[^".\\s]+)'
  const found = new RegExp(`^\\s*(?:${part}\\.)?${part}\\s*$`).exec(text)
  if (found === null) return undefined
  const plain = (one: string) => (one.startsWith('"') ? one.slice(1, -1).replaceAll('""', '"') : one)
  const [, schema, name = ''] = found
  return { schema: schema === undefined ? undefined : plain(schema), name: plain(name), isQuoted: name.startsWith('"') }
}

export const tableStatement = ({ schema, name }: TableName): OwnStatement => ({
  text: `
select c.oid, n.nspname as schema, c.relname as name, c.relkind as kind, a.attname as column_name, t.typname as type, tn.nspname as type_schema,
  t.typcategory as category, a.atttypmod as modifier, pg_catalog.left(pg_catalog.col_description(c.oid, a.attnum), 200) as comment,
  coalesce(a.attnum = any (i.indkey), false) as is_key,
  coalesce((select e.extversion from pg_catalog.pg_extension e where e.extname = 'vector'), '0') as version,
  coalesce((select pg_catalog.max(substring(o from '^lists=([0-9]{1,6})$')::integer)
    from pg_catalog.pg_index x join pg_catalog.pg_class xc on xc.oid = x.indexrelid, pg_catalog.unnest(xc.reloptions) o
    where x.indrelid = c.oid or x.indrelid in (select p.inhrelid from pg_catalog.pg_inherits p where p.inhparent = c.oid)), 0) as lists
from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_catalog.pg_type t on t.oid = a.atttypid
  join pg_catalog.pg_namespace tn on tn.oid = t.typnamespace
  left join pg_catalog.pg_index i on i.indrelid = c.oid and i.indisprimary
where c.relname = any (array[$1::text, pg_catalog.lower($1::text)]::name[]) and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and (case when $2::text is null then pg_catalog.pg_table_is_visible(c.oid) else n.nspname = any (array[$2::text, pg_catalog.lower($2::text)]::name[]) end)
  and pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_column_privilege(c.oid, a.attnum, 'select')
order by c.relname = $1::text desc, n.nspname = $2::text desc, c.oid, a.attnum`,
  values: [name, schema ?? null],
})

const searched = new Set(['vector', 'halfvec'])
const unsearched = new Set(['sparsevec', 'bit'])

/** Returns undefined if the role has no such table. */
export function tableOf(rows: NamedRows): Table | undefined {
  const [first, ...rest] = cellsOf(rows)
  if (first === undefined) return undefined
  const columns = [first, ...rest].filter(cells => cells.text('oid') === first.text('oid'))
  const names = (isOne: (cells: (typeof columns)[number]) => boolean) =>
    columns.filter(isOne).map(cells => cells.text('column_name'))
  return {
    schema: first.text('schema'),
    name: first.text('name'),
    kind: first.text('kind'),
    vectors: columns
      .filter(cells => searched.has(cells.text('type')))
      .map(cells => ({
        name: cells.text('column_name'),
        type: cells.text('type'),
        typeSchema: cells.text('type_schema'),
        dimensions: cells.number('modifier') > 0 ? cells.number('modifier') : undefined,
        comment: cells.maybe('comment'),
      })),
    otherVectors: columns.map(cells => cells.text('type')).filter(type => unsearched.has(type)),
    // All string types. Enums have their own category, so they are excluded.
    texts: names(cells => cells.text('category') === 'S'),
    key: names(cells => cells.flag('is_key')),
    version: Number(/^\d+\.\d+/.exec(first.text('version'))?.[0] ?? 0),
    lists: first.number('lists'),
  }
}

/** Lists names in the form that the tool accepts. */
export const vectorTablesStatement: OwnStatement = {
  text: `
select distinct n.nspname || '.' || c.relname as name
from pg_catalog.pg_attribute a
  join pg_catalog.pg_type t on t.oid = a.atttypid and t.typname in ('vector', 'halfvec')
  join pg_catalog.pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where a.attnum > 0 and not a.attisdropped and pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_column_privilege(c.oid, a.attnum, 'select')
order by 1 limit 1000`,
}

export type Search = {
  readonly table: Table
  /** The searched columns, which have the vector's dimensions. */
  readonly columns: readonly VectorColumn[]
  readonly vector: readonly number[]
  readonly metric: Metric
  /** The maximum number of rows found by each column. */
  readonly limit: number
  /** The maximum length of one text. */
  readonly maximumCharacters: number
}

const fewestCandidates = 400
const mostCandidates = 1_000
const fewestProbes = 20

/** Index settings for nearly exact results. They apply until the transaction ends. */
export function settingsStatement({ table, limit }: Search): OwnStatement {
  const settings = [
    ['hnsw.ef_search', Math.min(mostCandidates, Math.max(fewestCandidates, 4 * limit))],
    // The scan continues if rows are filtered out, mainly by row-level security.
    ...(table.version >= 0.8 ? [['hnsw.iterative_scan', 'strict_order']] : []),
    ...(table.lists > 0
      ? [['ivfflat.probes', Math.min(table.lists, Math.max(fewestProbes, Math.ceil(table.lists / 4)))]]
      : []),
  ]
  return {
    text: `select ${settings.map((_, index) => `set_config($${2 * index + 1}, $${2 * index + 2}, true)`).join(', ')}`,
    values: settings.flatMap(([name = '', value = '']) => [name, String(value)]),
  }
}

/** The columns that identify a row. */
function keyColumns({ key, kind }: Table): readonly string[] {
  if (key.length > 0) return key.map(name => `t.${quoteIdentifier(name)}::text`)
  return kind === 'v' || kind === 'f' ? ['md5(t::text)'] : ['t.tableoid::text', 't.ctid::text']
}

/** Finds the nearest rows by each column, with their distances by all columns. */
export function searchStatements(search: Search): readonly OwnStatement[] {
  const { table, columns, vector, metric, limit, maximumCharacters } = search
  const distances = columns.map(({ name, type, typeSchema }, index) => {
    const schema = quoteIdentifier(typeSchema)
    const order = `t.${quoteIdentifier(name)} operator(${schema}.${operators[metric]}) $${index + 1}::${schema}.${quoteIdentifier(type)}`
    return columns[index]?.dimensions === undefined
      ? {
          order,
          shown: `case when ${schema}.vector_dims(t.${quoteIdentifier(name)}) = ${vector.length} then ${order} end`,
        }
      : { order, shown: order }
  })
  const texts = table.texts.map(name => `left(t.${quoteIdentifier(name)}::text, ${maximumCharacters})`)
  const list = [...keyColumns(table), ...distances.map(({ shown }) => shown), ...texts]
  const values = columns.map(() => `[${vector.join(',')}]`)
  return columns.map(({ name, typeSchema, dimensions }, index) => {
    const column = `t.${quoteIdentifier(name)}`
    const isRight =
      dimensions === undefined ? ` and ${quoteIdentifier(typeSchema)}.vector_dims(${column}) = ${vector.length}` : ''
    const order = dimensions === undefined ? distances[index]?.shown : distances[index]?.order
    return {
      text: `select ${list.map((one, at) => `${one} as c${at}`).join(', ')}
from ${qualified(table)} t where ${column} is not null${isRight}
order by ${order} limit ${limit}`,
      values,
    }
  })
}

/** Combines the rows of all `searchStatements`. */
export function foundRows({ table, columns }: Search, results: readonly NamedRows[]): readonly FoundRow[] {
  const keys = keyColumns(table).length
  return results
    .flatMap(({ rows }) => rows)
    .map(row => ({
      key:
        table.key.length > 0
          ? table.key.map((name, index) => `${name}=${row[index] ?? ''}`).join(', ')
          : row.slice(0, keys).join(' '),
      distances: columns.map((_, index) => {
        const distance = row[keys + index]
        return distance === null || distance === undefined ? undefined : Number(distance)
      }),
      texts: table.texts.flatMap((column, index) => {
        const text = row[keys + columns.length + index]
        const isShown = text !== null && text !== undefined && text.trim() !== '' && !table.key.includes(column)
        return isShown ? [{ column, text }] : []
      }),
    }))
}
