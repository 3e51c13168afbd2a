/** Checks for space and rows that vacuum should clean up: bloat, dead rows, stale statistics. */

import { cellsOf } from '../../../postgres/cells.ts'
import { ofUsers } from '../relations.ts'
import { type Check, count, levelAbove, mostFindings, percent, size, worst } from './check.ts'

const mebibyte = 1_048_576
const leastWaste = { warning: 16 * mebibyte, critical: 1_024 * mebibyte }
const leastShare = { warning: 0.3, critical: 0.5 }

/**
 * Estimates bloat from ANALYZE statistics: the space for rows of average width, compared with the actual size. The page
 * header has 24 bytes, the item pointer 4, and the tuple header 23 plus the NULL bitmap, aligned to 8 (Postgres manual
 * section 66.6).
 */
const tableBloatSql = `
select pg_catalog.format('%I.%I', schema, name) as relation, pages * block as bytes,
  greatest(0, pages - pg_catalog.ceil(tuples * (4 + pg_catalog.ceil((24 + columns / 8.0 + width) / 8) * 8) / ((block - 24) * fill / 100.0))) * block as wasted
from (
  select namespace.nspname as schema, relation.relname as name, relation.relpages::bigint as pages, relation.reltuples as tuples,
    pg_catalog.current_setting('block_size')::int as block,
    coalesce((select option_value::int from pg_options_to_table(relation.reloptions) where option_name = 'fillfactor'), 100) as fill,
    pg_catalog.count(*) as columns, pg_catalog.sum((1 - statistic.null_frac) * statistic.avg_width) as width
  from pg_catalog.pg_class relation
    join pg_catalog.pg_namespace namespace on namespace.oid = relation.relnamespace
    join pg_catalog.pg_stats statistic
      on statistic.schemaname = namespace.nspname and statistic.tablename = relation.relname and not statistic.inherited
  where relation.relkind in ('r', 'm') and relation.relpages >= 1000 and relation.reltuples >= 0 and ${ofUsers('namespace')}
  group by relation.oid, namespace.nspname, relation.relname, relation.relpages, relation.reltuples, relation.reloptions
) estimate order by wasted desc limit ${mostFindings}`

/**
 * Estimates bloat of B-trees over plain columns: an entry has a header of 8 bytes and a pointer of 4. Pages are 90 %
 * full.
 */
const indexBloatSql = `
select pg_catalog.format('%I.%I', schema, name) as relation, pages * block as bytes,
  greatest(0, pages - pg_catalog.ceil(tuples * (12 + pg_catalog.ceil(width / 8) * 8) / ((block - 40) * 0.9))) * block as wasted
from (
  select namespace.nspname as schema, class.relname as name, class.relpages::bigint as pages, class.reltuples as tuples,
    pg_catalog.current_setting('block_size')::int as block, pg_catalog.sum((1 - statistic.null_frac) * statistic.avg_width) as width
  from pg_catalog.pg_index index
    join pg_catalog.pg_class class on class.oid = index.indexrelid and class.relkind = 'i' and class.relpages >= 1000
    join pg_catalog.pg_am method on method.oid = class.relam and method.amname = 'btree'
    join pg_catalog.pg_class target on target.oid = index.indrelid
    join pg_catalog.pg_namespace namespace on namespace.oid = target.relnamespace
    join pg_catalog.pg_attribute attribute on attribute.attrelid = index.indrelid and attribute.attnum = any(index.indkey)
    join pg_catalog.pg_stats statistic
      on statistic.schemaname = namespace.nspname and statistic.tablename = target.relname and statistic.attname = attribute.attname and not statistic.inherited
  where index.indexprs is null and class.reltuples >= 0 and ${ofUsers('namespace')}
  group by index.indexrelid, index.indnatts, namespace.nspname, class.relname, class.relpages, class.reltuples
  having pg_catalog.count(*) = index.indnatts
) estimate order by wasted desc limit ${mostFindings}`

export const bloatCheck: Check = {
  name: 'bloat',
  statements: [{ text: tableBloatSql }, { text: indexBloatSql }],
  evaluate(results) {
    const bloated = results.flatMap((rows, at) =>
      cellsOf(rows).flatMap(cells => {
        const [bytes, wasted] = [cells.number('bytes'), cells.number('wasted')]
        const level = (['critical', 'warning'] as const).find(
          one => wasted >= leastWaste[one] && wasted >= bytes * leastShare[one],
        )
        if (level === undefined) return []
        const cure = at === 0 ? 'VACUUM FULL locks it; pg_repack does not' : 'REINDEX INDEX CONCURRENTLY'
        const text = `${cells.text('relation')}: ${size(wasted)} of ${size(bytes)} (${percent(wasted, bytes)}); ${cure}`
        return [{ level, text }]
      }),
    )
    return {
      level: worst(bloated.map(({ level }) => level)),
      summary: `${bloated.length} bloated by estimate (warn from ${size(leastWaste.warning)} and 30 %, critical from ${size(leastWaste.critical)} and 50 %)`,
      findings: bloated.map(({ text }) => text),
    }
  },
}

const leastRows = 10_000

const vacuumSql = `
select pg_catalog.format('%I.%I', schemaname, relname) as relation, n_live_tup as live, n_dead_tup as dead, n_mod_since_analyze as modified,
  coalesce(to_char(greatest(last_vacuum, last_autovacuum), 'YYYY-MM-DD'), 'never') as vacuumed,
  coalesce(to_char(greatest(last_analyze, last_autoanalyze), 'YYYY-MM-DD'), 'never') as analyzed
from pg_catalog.pg_stat_user_tables
where (n_dead_tup >= ${leastRows} and n_dead_tup >= 0.2 * (n_live_tup + n_dead_tup))
  or (n_mod_since_analyze >= ${leastRows} and n_mod_since_analyze >= 0.2 * n_live_tup)
order by n_dead_tup desc, n_mod_since_analyze desc limit ${mostFindings}`

const autovacuumSql = `select pg_catalog.current_setting('autovacuum') as autovacuum, pg_catalog.current_setting('track_counts') as counts`

export const vacuumCheck: Check = {
  name: 'vacuum',
  statements: [{ text: vacuumSql }, { text: autovacuumSql }],
  evaluate([lagging, settings]) {
    if (!lagging || !settings) throw new Error('the check expects two statements')
    const isOff = cellsOf(settings).some(cells => cells.text('autovacuum') === 'off' || cells.text('counts') === 'off')
    const tables = cellsOf(lagging).map(cells => {
      const [live, dead, modified] = [cells.number('live'), cells.number('dead'), cells.number('modified')]
      const share = dead / Math.max(1, live + dead)
      const needsVacuum = dead >= leastRows && share >= 0.2
      return {
        level: levelAbove(needsVacuum ? share : 0.2, 0.2, 0.5),
        text: needsVacuum
          ? `${cells.text('relation')}: ${count(dead)} dead of ${count(live + dead)} rows (${percent(dead, live + dead)}), last vacuum ${cells.text('vacuumed')}`
          : `${cells.text('relation')}: ${count(modified)} rows changed since the last ANALYZE (${cells.text('analyzed')})`,
      }
    })
    return {
      level: isOff ? 'critical' : worst(tables.map(({ level }) => level)),
      summary: `${tables.length} tables behind (from ${count(leastRows)} rows: warn at 20 % dead or changed since ANALYZE, critical at 50 % dead)`,
      findings: [
        ...(isOff ? ['autovacuum or track_counts is off: nothing cleans up by itself'] : []),
        ...tables.map(({ text }) => text),
      ],
    }
  },
}
