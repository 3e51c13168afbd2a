/** The data for index advice: plans, with hypothetical indexes if HypoPG is installed, and table statistics. */
import { randomBytes } from 'node:crypto'
import type { OwnStatement } from '../../database/access.ts'
import { ofUsers } from '../relations.ts'

/** A statement that passed the check for one read-only SELECT. */
export type ReadStatement = {
  readonly text: string
  /**
   * Whether the statement has parameters, as pg_stat_statements writes them: `$1`. Then Postgres makes a generic plan.
   */
  readonly isGeneric: boolean
}

/** The prefix of a statement without parameters. */
export const explainPrefix = 'EXPLAIN (FORMAT JSON, VERBOSE) '

/** The last row of the results is the plan. */
export function explain({ text, isGeneric }: ReadStatement): readonly OwnStatement[] {
  return isGeneric ? explainGeneric(text) : [{ text: explainPrefix + text }]
}

const tagBytes = 8

/**
 * Over the extended protocol, EXPLAIN would need values for the parameters. Inside a DO block, EXPLAIN needs no values.
 * The block returns the plan in a setting of this transaction.
 */
function explainGeneric(text: string): readonly OwnStatement[] {
  // The dollar-quote tags are random, so that the statement cannot close its quotes.
  const [outer, inner] = [0, 1].map(() => `$e${randomBytes(tagBytes).toString('hex')}$`)
  const block = `DECLARE plan text; BEGIN
  EXECUTE ${inner}EXPLAIN (FORMAT JSON, VERBOSE, GENERIC_PLAN) ${text}
${inner} INTO plan; PERFORM pg_catalog.set_config('espalier_mcp.plan', plan, true); END`
  return [
    { text: `DO LANGUAGE plpgsql ${outer}${block}${outer}` },
    { text: `select pg_catalog.current_setting('espalier_mcp.plan')` },
  ]
}

/** Returns the quoted schema of HypoPG, or no row if HypoPG is not installed. */
export const hypotheticalExtension: OwnStatement = {
  text: `
select pg_catalog.quote_ident(namespace.nspname) as schema from pg_catalog.pg_extension extension
  join pg_catalog.pg_namespace namespace on namespace.oid = extension.extnamespace where extension.extname = 'hypopg'`,
}

/**
 * Returns the plan as if these indexes existed. Hypothetical indexes belong to the session, not the transaction. So the
 * statements remove them before and after the plan. If the plan fails, the indexes remain until the next call of this
 * function, and affect only plans.
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

/** Foreign keys without an index: a delete or update of a referenced row reads the whole referencing table. */
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

/** Large tables that Postgres often reads completely. */
export const sequentialScans: OwnStatement = {
  text: `
select pg_catalog.format('%I.%I', schemaname, relname) as table, seq_scan as scans, seq_tup_read / greatest(seq_scan, 1) as rows
from pg_catalog.pg_stat_user_tables
where seq_scan >= 10 and seq_tup_read / greatest(seq_scan, 1) >= 10000
order by seq_tup_read desc limit ${mostRows}`,
}
