/**
 * Functions that are decided by name: volatile functions that are harmless, and stable functions that are dangerous.
 */

/** Functions of pg_catalog that write nothing, lock nothing, and access nothing outside the database. */
const readOnlyFunctions = new Set(
  `random random_normal clock_timestamp timeofday gen_random_uuid uuidv4 uuidv7 array_sample array_shuffle
  pg_sleep pg_sleep_for pg_sleep_until current_query currval lastval pg_is_in_recovery
  pg_relation_size pg_total_relation_size pg_table_size pg_indexes_size pg_database_size pg_tablespace_size
  pg_partition_tree pg_partition_ancestors pg_sequence_last_value pg_get_sequence_data
  pg_blocking_pids pg_safe_snapshot_blocking_pids pg_lock_status pg_prepared_xact pg_notification_queue_usage pg_jit_available
  pg_current_wal_lsn pg_current_wal_insert_lsn pg_current_wal_flush_lsn pg_last_wal_receive_lsn pg_last_wal_replay_lsn
  pg_last_xact_replay_timestamp pg_last_committed_xact pg_is_wal_replay_paused pg_get_wal_replay_pause_state
  pg_get_wal_resource_managers pg_get_wal_summarizer_state pg_show_replication_origin_status
  pg_control_checkpoint pg_control_init pg_control_recovery pg_control_system pg_stat_have_stats
  pg_collation_actual_version pg_database_collation_actual_version pg_xact_commit_timestamp pg_xact_commit_timestamp_origin
  pg_xact_status txid_status pg_get_multixact_members pg_get_wait_events pg_get_aios`.split(/\s+/),
)
const readOnlyPattern = /^pg_stat_get_/

/** Harmless functions of extensions, by extension. */
const readOnlyOfExtensions: { readonly [extension: string]: RegExp } = {
  pg_stat_statements: /^pg_stat_statements(_info)?$/,
  'uuid-ossp': /^uuid_generate_v\d\w*$/,
  pgcrypto: /^gen_(random_bytes|random_uuid|salt)$/,
  pgstattuple: /^pg(stat|relpages)\w*$/,
  pg_buffercache: /^pg_buffercache_(pages|summary|usage_counts|numa_pages)$/,
  pgrowlocks: /^pgrowlocks$/,
  tablefunc: /^normal_rand$/,
  tsm_system_rows: /^system_rows$/,
  tsm_system_time: /^system_time$/,
}

/**
 * Functions that are refused, whatever the catalogue says. They run text as a statement, change the session, or access
 * files, other servers or other sessions. The catalogue declares functions for large objects, advisory locks and
 * sequences as volatile. They are listed nevertheless, so that a function with the same name and another declaration is
 * refused too.
 */
const dangerous =
  /^(pg_read_(binary_)?file|pg_ls_\w+|pg_stat_file|pg_file_\w+|lo_(close|creat|create|export|from_bytea|get|import|lseek|lseek64|open|put|tell|tell64|truncate|truncate64|unlink)|loread|lowrite|dblink\w*|postgres_fdw_\w+|pg_terminate_backend|pg_cancel_backend|set_config|pg_import_system_collations|pg_(try_)?advisory_\w+|nextval|setval|pg_notify|(query|table|schema|database|cursor)_to_xml\w*|ts_stat|ts_rewrite|crosstab\w*|connectby|xpath_table|pg_reload_conf|pg_rotate_logfile|pg_logdir_ls|pg_promote|pg_switch_wal|pg_export_snapshot|get_raw_page|(heap|bt|brin|gin|gist|hash)_page_\w+|tuple_data_split|pg_get_wal_(record|block|fpi)\w*)$/

/** Of these functions, a write may call the following. */
const ofWrites = /^(nextval|setval|ts_rewrite|pg_(try_)?advisory_xact_lock(_shared)?|pg_notify)$/

/**
 * Views of pg_catalog that show files of the server. Some of these files contain passwords. The views' functions are
 * refused too.
 */
const viewsOfFiles = /^pg_(hba_file_rules|ident_file_mappings|file_settings)$/

export const isViewOfFiles = (name: string): boolean => viewsOfFiles.test(name)

export const isDangerous = (name: string): boolean => dangerous.test(name)
export const isOfWrites = (name: string): boolean => ofWrites.test(name)

export function isReadOnly(schema: string, name: string, extension: string | null): boolean {
  if (schema === 'pg_catalog') return readOnlyFunctions.has(name) || readOnlyPattern.test(name)
  return extension !== null && Object.hasOwn(readOnlyOfExtensions, extension)
    ? readOnlyOfExtensions[extension]?.test(name) === true
    : false
}
