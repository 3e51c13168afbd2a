/** Reads a table's description from the catalog: the statements, and the conversion of their rows to objects. */
import { type Cells, cellsOf, type NamedRows, type OwnStatement } from '../../postgres/cells.ts'
import type { TableSettings } from '../configuration/types.ts'

export type CatalogColumn = {
  readonly name: string
  readonly number: number
  /** The schema of the column's type. If the type is a domain, this is its base type. */
  readonly typeSchema: string
  readonly typeName: string
  readonly arrayName: string | undefined
  /** pg_type.typcategory; `S` means text. */
  readonly category: string
  readonly modifier: number
  /** The column's position in the primary key, from 1. 0: the column is not part of it. */
  readonly keyPosition: number
  readonly isReadable: boolean
}

export type CatalogTable = {
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly oid: number
  /** Whether the table has child tables or partitions. */
  readonly hasChildren: boolean
  readonly isUsable: boolean
  readonly role: string
  /** The version of pgvector, such as 0.8.5; undefined: pgvector is not installed. */
  readonly pgvector: string | undefined
  readonly columns: readonly CatalogColumn[]
}

/** Lists columns even if the role may not read them, so that the error can name the column. */
export const tableStatement = ({ schema, name }: TableSettings): OwnStatement => ({
  text: `
with recursive relation as (
  select c.oid, n.oid as namespace, n.nspname, c.relname, c.relkind
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where c.relname = $1::name and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and case when $2::text is null then pg_catalog.pg_table_is_visible(c.oid) else n.nspname = $2::name end
), base as (
  select a.attname, a.attnum, a.atttypid as type, a.atttypmod as modifier
  from relation join pg_catalog.pg_attribute a on a.attrelid = relation.oid and a.attnum > 0 and not a.attisdropped
  union all
  select base.attname, base.attnum, t.typbasetype, t.typtypmod
  from base join pg_catalog.pg_type t on t.oid = base.type and t.typtype = 'd'
)
select r.nspname as schema, r.relname as name, r.relkind as kind, r.oid, current_user as role,
  exists (select from pg_catalog.pg_inherits h where h.inhparent = r.oid) as has_children,
  pg_catalog.has_schema_privilege(r.namespace, 'usage') as is_usable,
  (select e.extversion from pg_catalog.pg_extension e where e.extname = 'vector') as pgvector,
  base.attname as column_name, base.attnum as number, base.modifier, n.nspname as type_schema, t.typname as type_name, t.typcategory as category,
  (select x.typname from pg_catalog.pg_type x where x.oid = t.typarray) as array_name,
  coalesce(pg_catalog.array_position(i.indkey::smallint[], base.attnum) + 1, 0) as key_place,
  pg_catalog.has_column_privilege(r.oid, base.attnum, 'select') as is_readable
from relation r cross join base
  join pg_catalog.pg_type t on t.oid = base.type and t.typtype <> 'd'
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join pg_catalog.pg_index i on i.indrelid = r.oid and i.indisprimary
order by base.attnum`,
  values: [name, schema ?? null],
})

/** Returns undefined if the table does not exist. */
export function catalogTable(rows: NamedRows): CatalogTable | undefined {
  const cells = cellsOf(rows)
  const [first] = cells
  if (first === undefined) return undefined
  return {
    schema: first.text('schema'),
    name: first.text('name'),
    kind: first.text('kind'),
    oid: first.number('oid'),
    hasChildren: first.flag('has_children'),
    isUsable: first.flag('is_usable'),
    role: first.text('role'),
    pgvector: first.maybe('pgvector'),
    columns: cells.map(columnOf),
  }
}

const columnOf = (cells: Cells): CatalogColumn => ({
  name: cells.text('column_name'),
  number: cells.number('number'),
  typeSchema: cells.text('type_schema'),
  typeName: cells.text('type_name'),
  arrayName: cells.maybe('array_name'),
  category: cells.text('category'),
  modifier: cells.number('modifier'),
  keyPosition: cells.number('key_place'),
  isReadable: cells.flag('is_readable'),
})

/** An index on one column or expression, which can return rows in the order of an operator. */
export type CatalogIndex = {
  readonly name: string
  /** The access method, such as hnsw, ivfflat, vchordrq or diskann. */
  readonly method: string
  /** undefined: the index is on the column itself. */
  readonly expression: string | undefined
  readonly isPartial: boolean
  /** The operator's name, such as `<=>`. */
  readonly operator: string
  readonly operatorSchema: string
  readonly typeSchema: string
  readonly typeName: string
  /** The number of lists of an IVFFlat index. */
  readonly lists: number
}

/**
 * Lists valid indexes of any access method whose operator class has an ordering operator. Includes indexes on the
 * column and on any expression; `vectorIndex` checks the expressions. Indexes of partitions count as well, because an
 * ordered scan merges them. Expressions are printed for the session's search path, which later statements use too.
 */
export const indexesStatement = (oid: number, column: number): OwnStatement => ({
  text: `
select distinct x.relname as name, m.amname as method, pg_catalog.pg_get_expr(i.indexprs, i.indrelid) as expression, i.indpred is not null as is_partial,
  o.oprname as operator, n.nspname as operator_schema, tn.nspname as type_schema, t.typname as type_name,
  coalesce((select substring(option from '^lists=([0-9]{1,6})$')::integer from pg_catalog.unnest(x.reloptions) option where option like 'lists=%'), 100) as lists
from pg_catalog.pg_index i
  join pg_catalog.pg_class x on x.oid = i.indexrelid
  join pg_catalog.pg_am m on m.oid = x.relam
  join pg_catalog.pg_opclass c on c.oid = i.indclass[0]
  join pg_catalog.pg_type t on t.oid = c.opcintype
  join pg_catalog.pg_namespace tn on tn.oid = t.typnamespace
  join pg_catalog.pg_amop p on p.amopfamily = c.opcfamily and p.amoppurpose = 'o' and p.amoplefttype = c.opcintype
  join pg_catalog.pg_operator o on o.oid = p.amopopr
  join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
  left join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
where i.indisvalid and i.indisready and i.indnkeyatts = 1
  and (a.attname is null or a.attname = (select b.attname from pg_catalog.pg_attribute b where b.attrelid = $1::oid and b.attnum = $2::smallint))
  and (i.indrelid = $1::oid or i.indrelid in (select h.inhrelid from pg_catalog.pg_inherits h where h.inhparent = $1::oid))
order by 1`,
  values: [oid, column],
})

export const catalogIndexes = (rows: NamedRows): readonly CatalogIndex[] =>
  cellsOf(rows).map(cells => ({
    name: cells.text('name'),
    method: cells.text('method'),
    expression: cells.maybe('expression'),
    isPartial: cells.flag('is_partial'),
    operator: cells.text('operator'),
    operatorSchema: cells.text('operator_schema'),
    typeSchema: cells.text('type_schema'),
    typeName: cells.text('type_name'),
    lists: cells.number('lists'),
  }))
