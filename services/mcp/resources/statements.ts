/**
 * The statements of the built-in resources. Each returns one JSON document. They omit values that may contain a
 * password.
 */
import type { OwnStatement } from '../database/access.ts'
import { mayContainSecret, secretNames } from '../statement/settings.ts'

export const systemInfo: OwnStatement = {
  text: `
select pg_catalog.json_build_object('postgresql_version', pg_catalog.current_setting('server_version'), 'version_number', pg_catalog.current_setting('server_version_num'),
  'full_version', pg_catalog.version(), 'database', current_database(), 'user', current_user, 'encoding', pg_catalog.current_setting('server_encoding'),
  'time_zone', pg_catalog.current_setting('TimeZone'), 'is_standby', pg_catalog.pg_is_in_recovery(), 'started_at', pg_catalog.pg_postmaster_start_time(),
  'size_bytes', case when pg_catalog.has_database_privilege(current_database(), 'connect') then pg_catalog.pg_database_size(current_database()) end)`,
}

/** Hides values of settings that may contain passwords, such as primary_conninfo, from all callers. */
const shownSetting = `case
  when setting.name ~* '${secretNames}' and setting.vartype = 'string' and setting.setting <> ''
  then '(hidden)' else setting.setting end`

export const settings: OwnStatement = {
  text: `
select pg_catalog.json_agg(pg_catalog.json_build_object('name', setting.name, 'value', ${shownSetting}, 'unit', setting.unit, 'source', setting.source)
  order by setting.source in ('default', 'override'), setting.name)
from pg_catalog.pg_settings setting`,
}

export const setting = (name: string): OwnStatement => ({
  values: [name],
  text: `
select pg_catalog.json_build_object('name', setting.name, 'value', ${shownSetting}, 'unit', setting.unit, 'category', setting.category,
  'description', pg_catalog.concat_ws(' ', setting.short_desc, setting.extra_desc), 'type', setting.vartype, 'context', setting.context, 'source', setting.source,
  'default', setting.boot_val, 'minimum', setting.min_val, 'maximum', setting.max_val, 'choices', setting.enumvals, 'pending_restart', setting.pending_restart)
from pg_catalog.pg_settings setting where setting.name = $1`,
})

export const settingNames: OwnStatement = { text: 'select name from pg_catalog.pg_settings order by name' }

export const extensions: OwnStatement = {
  text: `
select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', extension.extname, 'version', extension.extversion, 'default_version', available.default_version,
  'schema', namespace.nspname, 'description', available.comment) order by extension.extname), '[]')
from pg_catalog.pg_extension extension
  join pg_catalog.pg_namespace namespace on namespace.oid = extension.extnamespace
  left join pg_catalog.pg_available_extensions available on available.name = extension.extname`,
}

export const extension = (name: string): OwnStatement => ({
  values: [name],
  text: `
select pg_catalog.json_build_object('name', available.name, 'installed_version', available.installed_version, 'default_version', available.default_version,
  'description', available.comment, 'schema', namespace.nspname)
from pg_catalog.pg_available_extensions available
  left join pg_catalog.pg_extension extension on extension.extname = available.name
  left join pg_catalog.pg_namespace namespace on namespace.oid = extension.extnamespace
where available.name = $1`,
})

export const extensionNames: OwnStatement = {
  text: 'select name from pg_catalog.pg_available_extensions order by installed_version is null, name',
}

const mostSessions = 200

/** The role sees what pg_stat_activity shows it: of other roles' sessions, only that they are active. */
export const activity: OwnStatement = {
  text: `
select pg_catalog.json_build_object(
  'by_state', (select coalesce(pg_catalog.json_object_agg(state, number), '{}') from (
    select coalesce(state, 'unknown') as state, pg_catalog.count(*) as number from pg_catalog.pg_stat_activity
    where datname = current_database() group by 1) states),
  'sessions', (select coalesce(pg_catalog.json_agg(session), '[]') from (
    select pid, usename as role, application_name, state, wait_event_type, wait_event,
      pg_catalog.round(extract(epoch from pg_catalog.clock_timestamp() - xact_start)::numeric, 1) as transaction_seconds,
      pg_catalog.round(extract(epoch from pg_catalog.clock_timestamp() - query_start)::numeric, 1) as query_seconds,
      pg_catalog.pg_blocking_pids(pid) as blocked_by, case when ${mayContainSecret('query')} then '(hidden)' else pg_catalog.left(query, 500) end as query
    from pg_catalog.pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
    order by state is distinct from 'active', xact_start nulls last, pid limit ${mostSessions}) session))`,
}

const mostTables = 200

export const statistics: OwnStatement = {
  text: `
select pg_catalog.json_build_object(
  'database', (select pg_catalog.json_build_object('commits', xact_commit, 'rollbacks', xact_rollback, 'blocks_read', blks_read, 'blocks_hit', blks_hit,
      'rows_returned', tup_returned, 'rows_fetched', tup_fetched, 'rows_inserted', tup_inserted, 'rows_updated', tup_updated, 'rows_deleted', tup_deleted,
      'deadlocks', deadlocks, 'temporary_files', temp_files, 'temporary_bytes', temp_bytes, 'since', stats_reset)
    from pg_catalog.pg_stat_database where datname = current_database()),
  'tables', (select coalesce(pg_catalog.json_agg(one), '[]') from (
    select usage.schemaname as schema, usage.relname as table, relation.relpages::bigint * pg_catalog.current_setting('block_size')::int as bytes,
      usage.n_live_tup as live_rows, usage.n_dead_tup as dead_rows, usage.seq_scan as sequential_scans, usage.seq_tup_read as rows_read_by_them,
      coalesce(usage.idx_scan, 0) as index_scans, usage.n_tup_ins as inserted, usage.n_tup_upd as updated, usage.n_tup_del as deleted,
      greatest(usage.last_vacuum, usage.last_autovacuum) as vacuumed, greatest(usage.last_analyze, usage.last_autoanalyze) as analyzed
    from pg_catalog.pg_stat_user_tables usage join pg_catalog.pg_class relation on relation.oid = usage.relid
    where pg_catalog.has_schema_privilege(relation.relnamespace, 'usage') and pg_catalog.has_table_privilege(relation.oid, 'select')
    order by relation.relpages desc, usage.seq_tup_read desc limit ${mostTables}) one))`,
}
