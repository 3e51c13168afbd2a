/**
 * The query of one sample: one statement on Postgres's statistics, without user data. The counts of sessions,
 * transactions and blocks exclude `template1`, so that samples do not count themselves.
 */

/** The database that the agent connects to. Users cannot connect to it or replace it. */
export const monitoredFrom = 'template1'
export const monitorRole = 'espalier_monitor'
const applicationDatabase = 'app'

/**
 * The result's keys are names of measures, and `wal_file`. The query calls the functions behind the statistics views
 * directly, because reading the views' definitions in a new session takes longer than the rest of the query.
 */
export const sampleQuery = `
SELECT json_build_object(
  'start_time_seconds', extract(epoch FROM pg_postmaster_start_time()),
  'connections', c.connections, 'connections_active', c.active, 'connections_idle_in_transaction', c.idle_in_transaction,
  'oldest_transaction_seconds', c.oldest,
  'connections_limit', current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int - current_setting('reserved_connections')::int,
  'sessions', d.sessions, 'transactions_committed', d.committed, 'transactions_rolled_back', d.rolled_back,
  'blocks_hit', d.hit, 'blocks_read', d.fetched - d.hit, 'deadlocks', d.deadlocks,
  'checksum_failures', coalesce(d.checksum_failures, 0),
  'wal_bytes', w.position - '0/0'::pg_lsn,
  'wal_file', CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(w.position) END,
  'replicas', r.replicas, 'replication_lag_bytes', w.position - r.replayed, 'replication_lag_seconds', r.lag_seconds,
  'slots_retained_bytes', w.position - s.restart,
  'locks', l.held, 'locks_waiting', l.waiting,
  'transaction_age', d.transaction_age, 'multixact_age', d.multixact_age)
FROM (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS position) AS w,
(SELECT count(*) AS connections, count(*) FILTER (WHERE state = 'active') AS active,
    count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle_in_transaction,
    coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS oldest
  FROM pg_stat_get_activity(NULL) WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) AS c,
(SELECT sum(pg_stat_get_db_sessions(oid)) FILTER (WHERE counts) AS sessions,
    sum(pg_stat_get_db_xact_commit(oid)) FILTER (WHERE counts) AS committed,
    sum(pg_stat_get_db_xact_rollback(oid)) FILTER (WHERE counts) AS rolled_back,
    sum(pg_stat_get_db_blocks_hit(oid)) FILTER (WHERE counts) AS hit,
    sum(pg_stat_get_db_blocks_fetched(oid)) FILTER (WHERE counts) AS fetched,
    sum(pg_stat_get_db_deadlocks(oid)) AS deadlocks, sum(pg_stat_get_db_checksum_failures(oid)) AS checksum_failures,
    max(transactions) AS transaction_age, max(multixacts) AS multixact_age
  FROM (SELECT oid, datname <> '${monitoredFrom}' AS counts, age(datfrozenxid) AS transactions, mxid_age(datminmxid) AS multixacts
    FROM pg_database UNION ALL SELECT 0, true, NULL, NULL) AS databases) AS d,
-- The archive's receiver and base backups replay no WAL. Their replay_lsn is null, so they do not count as replicas.
(SELECT count(replay_lsn) AS replicas, min(replay_lsn) AS replayed, max(extract(epoch FROM replay_lag)) AS lag_seconds
  FROM pg_stat_get_wal_senders()) AS r,
(SELECT min(restart_lsn) AS restart FROM pg_get_replication_slots()) AS s,
(SELECT count(*) FILTER (WHERE granted) AS held, count(*) FILTER (WHERE NOT granted) AS waiting
  FROM pg_lock_status() WHERE pid <> pg_backend_pid()) AS l`

/** This query reads the size of each file of the database, so it runs rarely. */
export const sizeQuery = `SELECT pg_database_size(oid) FROM pg_database WHERE datname = '${applicationDatabase}'`
