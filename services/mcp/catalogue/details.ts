/**
 * The structure of relations: columns, constraints, indexes, and referencing tables. Omits columns that the role may
 * not use.
 */

import { type Cells, cellsOf } from '../../postgres/cells.ts'
import type { OwnStatement, Rows } from '../database/access.ts'

export type Column = {
  readonly name: string
  /** The type with its modifier: `numeric(10,2)`, `vector(384)`. */
  readonly type: string
  readonly isNullable: boolean
  readonly default: string | undefined
  readonly identity: 'always' | 'by default' | undefined
  /** The expression of a generated column. */
  readonly generated: string | undefined
  readonly comment: string | undefined
  /** The labels of the column's enum type. */
  readonly labels: readonly string[]
  readonly isVector: boolean
  /** The dimensions of a vector column, if they are fixed. */
  readonly dimensions: number | undefined
}

export type Constraint = {
  readonly kind: 'primary key' | 'unique' | 'foreign key' | 'check' | 'exclude'
  readonly name: string
  readonly columns: readonly string[]
  /** The definition as `pg_get_constraintdef` writes it. */
  readonly definition: string
  /** The referenced table of a foreign key. */
  readonly references:
    | { readonly schema: string; readonly table: string; readonly columns: readonly string[] }
    | undefined
}

type Index = {
  readonly name: string
  /** Columns in index order; undefined for an expression. */
  readonly columns: readonly (string | undefined)[]
  /** The definition from the access method on: `btree (a, b) WHERE c`. */
  readonly definition: string
  readonly isUnique: boolean
  readonly isValid: boolean
  /** Whether a primary key, unique or exclude constraint created the index. */
  readonly isOfConstraint: boolean
}

type Reference = { readonly schema: string; readonly table: string; readonly columns: readonly string[] }

export type RelationDetails = {
  /** Schema and name, quoted if necessary. */
  readonly qualifiedName: string
  readonly columns: readonly Column[]
  readonly constraints: readonly Constraint[]
  readonly indexes: readonly Index[]
  /** Foreign keys of other tables to this one. */
  readonly referencedBy: readonly Reference[]
  readonly partitionKey: string | undefined
  /** Schema and name of the topmost partitioned table, if this is a partition. */
  readonly partitionOf: string | undefined
  /** The query of a view, truncated if it is long. */
  readonly viewQuery: string | undefined
}

/** The columns of a constraint in order, as JSON. */
const columnNames = (relation: string, keys: string) => `(
    select coalesce(pg_catalog.json_agg(attribute.attname order by key.position), '[]')
    from pg_catalog.unnest(${keys}) with ordinality as key(number, position)
      join pg_catalog.pg_attribute attribute on attribute.attrelid = ${relation} and attribute.attnum = key.number)`

export const detailStatements = (oids: readonly string[]): readonly OwnStatement[] => {
  const values = [`{${oids.join(',')}}`]
  return [
    {
      values,
      text: `
select attribute.attrelid as relation, attribute.attname as name, pg_catalog.format_type(attribute.atttypid, attribute.atttypmod) as type,
  not attribute.attnotnull as is_nullable, pg_catalog.left(pg_catalog.pg_get_expr(value.adbin, value.adrelid), 500) as expression,
  attribute.attidentity as identity, attribute.attgenerated <> '' as is_generated,
  pg_catalog.left(pg_catalog.col_description(attribute.attrelid, attribute.attnum), 1000) as comment,
  type.typname in ('vector', 'halfvec', 'sparsevec') as is_vector, attribute.atttypmod as modifier,
  (select pg_catalog.json_agg(label order by place) from (
    select label.enumlabel as label, label.enumsortorder as place from pg_catalog.pg_enum label
    where label.enumtypid = attribute.atttypid order by label.enumsortorder limit 30) labels) as labels
from pg_catalog.pg_attribute attribute
  join pg_catalog.pg_type type on type.oid = attribute.atttypid
  left join pg_catalog.pg_attrdef value on value.adrelid = attribute.attrelid and value.adnum = attribute.attnum
where attribute.attrelid = any($1::oid[]) and attribute.attnum > 0 and not attribute.attisdropped
  and pg_catalog.has_column_privilege(attribute.attrelid, attribute.attnum, 'select, insert, update')
order by attribute.attrelid, attribute.attnum`,
    },
    {
      values,
      text: `
select con.conrelid as relation, con.contype as kind, con.conname as name, pg_catalog.left(pg_catalog.pg_get_constraintdef(con.oid), 1000) as definition,
  ${columnNames('con.conrelid', 'con.conkey')} as columns,
  namespace.nspname as target_schema, target.relname as target_table,
  ${columnNames('con.confrelid', 'con.confkey')} as target_columns
from pg_catalog.pg_constraint con
  left join pg_catalog.pg_class target on target.oid = con.confrelid
  left join pg_catalog.pg_namespace namespace on namespace.oid = target.relnamespace
where con.conrelid = any($1::oid[]) and con.contype in ('p', 'u', 'f', 'c', 'x')
order by con.conrelid, position(con.contype::text in 'pufxc'), con.conname collate "C"`,
    },
    {
      values,
      text: `
select index.indrelid as relation, class.relname as name, index.indisunique as is_unique, index.indisvalid as is_valid,
  pg_catalog.regexp_replace(pg_catalog.left(pg_catalog.pg_get_indexdef(index.indexrelid), 1000), '^.*? USING ', '') as definition,
  (select pg_catalog.json_agg(attribute.attname order by key.position)
    from pg_catalog.unnest(index.indkey[0:index.indnkeyatts - 1]) with ordinality as key(number, position)
      left join pg_catalog.pg_attribute attribute on attribute.attrelid = index.indrelid and attribute.attnum = key.number and key.number > 0
  ) as columns,
  exists (select from pg_catalog.pg_constraint con
    where con.conindid = index.indexrelid and con.conrelid = index.indrelid and con.contype in ('p', 'u', 'x')) as is_of_constraint
from pg_catalog.pg_index index
  join pg_catalog.pg_class class on class.oid = index.indexrelid
where index.indrelid = any($1::oid[])
order by index.indrelid, class.relname collate "C"`,
    },
    {
      values,
      text: `
select con.confrelid as relation, namespace.nspname as schema, source.relname as table, ${columnNames('con.conrelid', 'con.conkey')} as columns
from pg_catalog.pg_constraint con
  join pg_catalog.pg_class source on source.oid = con.conrelid
  join pg_catalog.pg_namespace namespace on namespace.oid = source.relnamespace
where con.confrelid = any($1::oid[]) and con.contype = 'f' and con.conparentid = 0
  and pg_catalog.has_schema_privilege(namespace.oid, 'usage') and pg_catalog.has_any_column_privilege(source.oid, 'select, insert, update')
order by con.confrelid, namespace.nspname collate "C", source.relname collate "C" limit 1000`,
    },
    {
      values,
      text: `
select relation.oid as relation, pg_catalog.format('%I.%I', namespace.nspname, relation.relname) as qualified,
  case when relation.relkind = 'p' then pg_catalog.pg_get_partkeydef(relation.oid) end as partition_key,
  case when relation.relkind in ('v', 'm') then pg_catalog.left(pg_catalog.pg_get_viewdef(relation.oid, true), 1000) end as view_query,
  case when relation.relispartition then (
    select pg_catalog.format('%I.%I', namespace.nspname, root.relname)
    from pg_catalog.pg_class root join pg_catalog.pg_namespace namespace on namespace.oid = root.relnamespace
    where root.oid = pg_partition_root(relation.oid)) end as partition_of
from pg_catalog.pg_class relation join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
where relation.oid = any($1::oid[])`,
    },
  ]
}

/** Parses a list that the statement returned as a JSON array. */
function names(cells: Cells, column: string): readonly string[] {
  const text = cells.maybe(column)
  // json_agg over a column of names returns an array of strings.
  return text === undefined ? [] : (JSON.parse(text) as string[])
}

function columnOf(cells: Cells): Column {
  const expression = cells.maybe('expression')
  const isGenerated = cells.flag('is_generated')
  const identity = cells.text('identity')
  const isVector = cells.flag('is_vector')
  const modifier = cells.number('modifier')
  return {
    name: cells.text('name'),
    type: cells.text('type'),
    isNullable: cells.flag('is_nullable'),
    default: isGenerated ? undefined : expression,
    generated: isGenerated ? expression : undefined,
    identity: identity === 'a' ? 'always' : identity === 'd' ? 'by default' : undefined,
    comment: cells.maybe('comment'),
    labels: names(cells, 'labels'),
    isVector,
    dimensions: isVector && modifier > 0 ? modifier : undefined,
  }
}

const constraintKinds: Readonly<Record<string, Constraint['kind']>> = {
  p: 'primary key',
  u: 'unique',
  f: 'foreign key',
  x: 'exclude',
}

function constraintOf(cells: Cells): Constraint {
  const table = cells.maybe('target_table')
  return {
    kind: constraintKinds[cells.text('kind')] ?? 'check',
    name: cells.text('name'),
    columns: names(cells, 'columns'),
    definition: cells.text('definition'),
    references:
      table === undefined
        ? undefined
        : { schema: cells.text('target_schema'), table, columns: names(cells, 'target_columns') },
  }
}

function indexOf(cells: Cells): Index {
  // json_agg over an outer join returns strings; an expression becomes null.
  const columns = JSON.parse(cells.maybe('columns') ?? '[]') as (string | null)[]
  return {
    name: cells.text('name'),
    columns: columns.map(column => column ?? undefined),
    definition: cells.text('definition'),
    isUnique: cells.flag('is_unique'),
    isValid: cells.flag('is_valid'),
    isOfConstraint: cells.flag('is_of_constraint'),
  }
}

const referenceOf = (cells: Cells): Reference => ({
  schema: cells.text('schema'),
  table: cells.text('table'),
  columns: names(cells, 'columns'),
})

/** Converts the rows of `detailStatements` to the details of each relation. */
export function detailsOf(oids: readonly string[], results: readonly Rows[]): ReadonlyMap<string, RelationDetails> {
  const [columns, constraints, indexes, references, relations] = results.map(rows =>
    Map.groupBy(cellsOf(rows), cells => cells.text('relation')),
  )
  return new Map(
    oids.flatMap(oid => {
      const [relation] = relations?.get(oid) ?? []
      // The relation was dropped after the overview was read.
      if (relation === undefined) return []
      const details: RelationDetails = {
        qualifiedName: relation.text('qualified'),
        columns: (columns?.get(oid) ?? []).map(columnOf),
        constraints: (constraints?.get(oid) ?? []).map(constraintOf),
        indexes: (indexes?.get(oid) ?? []).map(indexOf),
        referencedBy: (references?.get(oid) ?? []).map(referenceOf),
        partitionKey: relation.maybe('partition_key'),
        partitionOf: relation.maybe('partition_of'),
        viewQuery: relation.maybe('view_query'),
      }
      return [[oid, details]]
    }),
  )
}
