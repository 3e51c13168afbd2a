/** Finds indexes that are invalid, duplicate, or never read. */

import { cellsOf } from '../../../postgres/cells.ts'
import { ofUsers } from '../relations.ts'
import { type Check, mostFindings, plural, size } from './check.ts'

const mebibyte = 1_048_576

const invalidSql = `
select pg_catalog.format('%I.%I', namespace.nspname, class.relname) as index, pg_catalog.format('%I', target.relname) as table
from pg_catalog.pg_index index
  join pg_catalog.pg_class class on class.oid = index.indexrelid
  join pg_catalog.pg_class target on target.oid = index.indrelid
  join pg_catalog.pg_namespace namespace on namespace.oid = class.relnamespace
where not (index.indisvalid and index.indisready) and class.relkind = 'i' and ${ofUsers('namespace')}
  and not exists (select from pg_catalog.pg_stat_progress_create_index building where building.index_relid = index.indexrelid)
order by 1 limit ${mostFindings}`

const duplicateSql = `
select pg_catalog.format('%I.%I', namespace.nspname, target.relname) as table,
  pg_catalog.string_agg(pg_catalog.format('%I', class.relname), ', ' order by con.oid is null, not index.indisunique, class.relname) as indexes,
  pg_catalog.sum(pg_catalog.pg_relation_size(class.oid)) - pg_catalog.max(pg_catalog.pg_relation_size(class.oid)) as wasted
from pg_catalog.pg_index index
  join pg_catalog.pg_class class on class.oid = index.indexrelid
  join pg_catalog.pg_class target on target.oid = index.indrelid
  join pg_catalog.pg_namespace namespace on namespace.oid = target.relnamespace
  left join pg_catalog.pg_constraint con on con.conindid = index.indexrelid and con.contype in ('p', 'u', 'x')
where index.indisvalid and ${ofUsers('namespace')} and class.relkind in ('i', 'I')
group by namespace.nspname, target.relname, index.indrelid, class.relam, index.indkey::text, index.indclass::text, index.indcollation::text,
  index.indoption::text, index.indnkeyatts, pg_catalog.pg_get_expr(index.indexprs, index.indrelid), pg_catalog.pg_get_expr(index.indpred, index.indrelid)
having pg_catalog.count(distinct index.indexrelid) > 1
order by wasted desc limit ${mostFindings}`

const unusedSql = `
select pg_catalog.format('%I.%I', usage.schemaname, usage.indexrelname) as index, pg_catalog.format('%I', usage.relname) as table, pg_catalog.pg_relation_size(usage.indexrelid) as bytes
from pg_catalog.pg_stat_user_indexes usage
  join pg_catalog.pg_index index on index.indexrelid = usage.indexrelid
where usage.idx_scan = 0 and not index.indisunique and index.indisvalid and pg_catalog.pg_relation_size(usage.indexrelid) >= ${mebibyte}
  and not exists (select from pg_catalog.pg_constraint con where con.conindid = usage.indexrelid)
order by bytes desc limit ${mostFindings}`

const sinceSql = `
select extract(epoch from pg_catalog.now() - coalesce(stats_reset, pg_catalog.pg_postmaster_start_time()))::bigint / 86400 as days
from pg_catalog.pg_stat_database where datname = current_database()`

export const indexCheck: Check = {
  name: 'indexes',
  statements: [{ text: invalidSql }, { text: duplicateSql }, { text: unusedSql }, { text: sinceSql }],
  evaluate([invalid, duplicate, unused, since]) {
    if (!invalid || !duplicate || !unused || !since) throw new Error('the check expects four statements')
    const days = cellsOf(since)[0]?.number('days') ?? 0
    const findings = [
      ...cellsOf(invalid).map(
        cells => `invalid: ${cells.text('index')} on ${cells.text('table')}; drop it, or REINDEX INDEX CONCURRENTLY`,
      ),
      ...cellsOf(duplicate).map(
        cells =>
          `duplicate on ${cells.text('table')}: ${cells.text('indexes')}; all but the first can go (${size(cells.number('wasted'))})`,
      ),
      ...cellsOf(unused).map(
        cells => `unused: ${cells.text('index')} on ${cells.text('table')} (${size(cells.number('bytes'))})`,
      ),
    ]
    const numbers = `${invalid.rows.length} invalid, ${duplicate.rows.length} duplicate, ${unused.rows.length} unused`
    return {
      level: findings.length > 0 ? 'warning' : 'ok',
      summary: `${numbers} (unused: from 1 MiB, not unique, no scan in ${plural(days, 'day', 'days')} of statistics; replicas count for themselves)`,
      findings,
    }
  },
}
