/** What advice on indexes is read by: plans, with indexes that HypoPG only pretends where it is there, and what the statistics say of tables without any query. */
import { randomBytes } from 'node:crypto'
import type { OwnStatement } from '../../database/access.ts'
import { ofUsers } from '../relations.ts'

/** A statement that has been judged to be one SELECT that only reads. */
export type ReadStatement = {
  readonly text: string
  /** Whether it has parameters, as pg_stat_statements writes them: `$1`. It is planned for any values. */
  readonly isGeneric: boolean
}

/** What stands before the statement where it has no parameters. */
export const explainPrefix = 'EXPLAIN (FORMAT JSON, VERBOSE) '

/** Its last row is the plan. */
export function explain({ text, isGeneric }: ReadStatement): readonly OwnStatement[] {
  return isGeneric ? explainGeneric(text) : [{ text: explainPrefix + text }]
}

const tagBytes = 8

/**
 * Over the extended protocol, EXPLAIN would plan with the values that have to come with parameters. Inside of a block there are none; the plan comes out by a setting of this
 * transaction.
 */
function explainGeneric(text: string): readonly OwnStatement[] {
  // Drawn at random, so that no statement ends what it stands in.
  const [outer, inner] = [0, 1].map(() => `$e${randomBytes(tagBytes).toString('hex')}$`)
  const block = `DECLARE plan text; BEGIN
  EXECUTE ${inner}EXPLAIN (FORMAT JSON, VERBOSE, GENERIC_PLAN) ${text}
${inner} INTO plan; PERFORM pg_catalog.set_config('espalier_mcp.plan', plan, true); END`
  return [
    { text: `DO LANGUAGE plpgsql ${outer}${block}${outer}` },
    { text: `select pg_catalog.current_setting('espalier_mcp.plan')` },
  ]
}

/** Its schema, quoted; no row where it is not there. */
export const hypotheticalExtension: OwnStatement = {
  text: `
select pg_catalog.quote_ident(namespace.nspname) as schema from pg_catalog.pg_extension extension
  join pg_catalog.pg_namespace namespace on namespace.oid = extension.extnamespace where extension.extname = 'hypopg'`,
}

/**
 * The plan as it were with these indexes. Hypothetical indexes are the session's, not the transaction's: they go before and after. Where the plan fails in between they are left
 * until the next call of this kind, seen by nothing but plans.
 */
export const explainWith = (
  schema: string,
  indexes: readonly string[],
  query: ReadStatement,
): readonly OwnStatement[] => [
  { text: `select ${schema}.hypopg_reset()` },
  ...indexes.map(sql => ({ text: `select indexname as name from ${schema}.hypopg_create_index($1)`, values: [sql] })),
  ...explain(query),
  { text: `select ${schema}.hypopg_reset()` },
]

const mostRows = 20

/** Deleting or changing a row that is referred to reads the whole table that refers to it. */
export const unindexedForeignKeys: OwnStatement = {
  text: `
select pg_catalog.format('%I.%I', namespace.nspname, relation.relname) as table, con.conname as name, relation.reltuples::bigint as rows,
  (select pg_catalog.string_agg(pg_catalog.quote_ident(attribute.attname), ', ' order by key.position)
    from pg_catalog.unnest(con.conkey) with ordinality as key(number, position)
      join pg_catalog.pg_attribute attribute on attribute.attrelid = con.conrelid and attribute.attnum = key.number) as columns
from pg_catalog.pg_constraint con
  join pg_catalog.pg_class relation on relation.oid = con.conrelid
  join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
where con.contype = 'f' and relation.reltuples >= 1000 and ${ofUsers('namespace')}
  and pg_catalog.has_schema_privilege(namespace.oid, 'usage') and pg_catalog.has_table_privilege(relation.oid, 'select')
  and not exists (select from pg_catalog.pg_index index
    where index.indrelid = con.conrelid and index.indisvalid and index.indpred is null
      and (pg_catalog.string_to_array(index.indkey::text, ' ')::int2[])[1:pg_catalog.cardinality(con.conkey)] @> con.conkey)
order by relation.reltuples desc, 2 limit ${mostRows}`,
}

/** Large tables that are read whole time and again. */
export const sequentialScans: OwnStatement = {
  text: `
select pg_catalog.format('%I.%I', schemaname, relname) as table, seq_scan as scans, seq_tup_read / greatest(seq_scan, 1) as rows
from pg_catalog.pg_stat_user_tables
where seq_scan >= 10 and seq_tup_read / greatest(seq_scan, 1) >= 10000
order by seq_tup_read desc limit ${mostRows}`,
}
