/**
 * Tables, views and other relations that the role may use, as one list. The server reads the whole list, up to a limit,
 * and caches it.
 */

import { cellsOf } from '../../postgres/cells.ts'
import type { OwnStatement, Rows } from '../database/access.ts'

type RelationType = 'TABLE' | 'PARTITIONED TABLE' | 'VIEW' | 'MATERIALIZED VIEW' | 'FOREIGN TABLE'

export type Relation = {
  readonly oid: string
  readonly schema: string
  readonly name: string
  readonly type: RelationType
  readonly isPartition: boolean
  readonly hasVectors: boolean
  /** Postgres's estimate; undefined if the relation was never analyzed, or if its kind has no estimate. */
  readonly estimatedRows: number | undefined
  readonly comment: string | undefined
  /** The extension that created the relation. */
  readonly extension: string | undefined
}

type Schema = { readonly name: string; readonly comment: string | undefined }

export type Overview = {
  /** Ordered by schema and name. */
  readonly relations: readonly Relation[]
  /** Schemas that the role may use, including empty schemas, ordered by name. */
  readonly schemas: readonly Schema[]
  /** Whether there are more relations than the list contains. */
  readonly isTruncated: boolean
}

const maximumRelations = 20_000
/** The maximum length of a comment in a list. */
const shownComment = 200

/** Types of pgvector. For these types, the type modifier of a column is its number of dimensions. */
const vectorTypes = `('vector', 'halfvec', 'sparsevec')`

/** Excludes Postgres's own schemas and temporary schemas. */
export const ofUsers = (namespace: string): string =>
  `${namespace}.nspname <> 'information_schema' and ${namespace}.nspname !~ '^pg_'`

/** Whether the role has a privilege on the relation's rows, or on one column. */
const isUsable = (relation: string): string =>
  `(pg_catalog.has_table_privilege(${relation}.oid, 'select, insert, update, delete') or pg_catalog.has_any_column_privilege(${relation}.oid, 'select, insert, update'))`

export const overviewStatements: readonly OwnStatement[] = [
  {
    text: `
select relation.oid, namespace.nspname as schema, relation.relname as name, relation.relkind as kind, relation.relispartition as is_partition,
  case when relation.relkind in ('v', 'f') or relation.reltuples < 0 then null else relation.reltuples::bigint end as estimated_rows,
  pg_catalog.left(description.description, ${shownComment}) as comment, vectors.attrelid is not null as has_vectors,
  extension.extname as extension
from pg_catalog.pg_class relation
  join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
  left join pg_catalog.pg_description description
    on description.classoid = 'pg_catalog.pg_class'::regclass and description.objoid = relation.oid and description.objsubid = 0
  left join (
    select distinct attribute.attrelid from pg_catalog.pg_attribute attribute
    where attribute.attnum > 0 and not attribute.attisdropped
      and attribute.atttypid in (select type.oid from pg_catalog.pg_type type where type.typname in ${vectorTypes})
  ) vectors on vectors.attrelid = relation.oid
  left join pg_catalog.pg_depend membership
    on membership.classid = 'pg_catalog.pg_class'::regclass and membership.objid = relation.oid and membership.objsubid = 0 and membership.deptype = 'e'
  left join pg_catalog.pg_extension extension on extension.oid = membership.refobjid
where relation.relkind in ('r', 'p', 'v', 'm', 'f') and ${ofUsers('namespace')}
  and pg_catalog.has_schema_privilege(namespace.oid, 'usage') and ${isUsable('relation')}
order by namespace.nspname collate "C", relation.relname collate "C"
limit ${maximumRelations + 1}`,
  },
  {
    text: `
select nspname as schema, pg_catalog.left(pg_catalog.obj_description(oid, 'pg_namespace'), ${shownComment}) as comment
from pg_catalog.pg_namespace namespace
where ${ofUsers('namespace')} and pg_catalog.has_schema_privilege(oid, 'usage')
order by nspname collate "C" limit 10000`,
  },
]

const types: Readonly<Record<string, RelationType>> = {
  p: 'PARTITIONED TABLE',
  v: 'VIEW',
  m: 'MATERIALIZED VIEW',
  f: 'FOREIGN TABLE',
}

/** Converts the rows of `overviewStatements`. */
export function overviewOf([relations, schemas]: readonly Rows[]): Overview {
  if (relations === undefined || schemas === undefined) throw new Error('the overview expects two statements')
  const all = cellsOf(relations).map(
    (cells): Relation => ({
      oid: cells.text('oid'),
      schema: cells.text('schema'),
      name: cells.text('name'),
      type: types[cells.text('kind')] ?? 'TABLE',
      isPartition: cells.flag('is_partition'),
      hasVectors: cells.flag('has_vectors'),
      estimatedRows: cells.maybe('estimated_rows') === undefined ? undefined : cells.number('estimated_rows'),
      comment: cells.maybe('comment'),
      extension: cells.maybe('extension'),
    }),
  )
  return {
    relations: all.slice(0, maximumRelations),
    schemas: cellsOf(schemas).map(cells => ({ name: cells.text('schema'), comment: cells.maybe('comment') })),
    isTruncated: all.length > maximumRelations,
  }
}
