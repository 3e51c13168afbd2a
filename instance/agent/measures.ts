/**
 * The agent's measures: the name, type and description of each measure. If Postgres resets its statistics, the counters
 * of these statistics start again at 0. Metrics, series, alert rules and the dashboard use these names.
 */

type Definition = { type: 'gauge' | 'counter'; help: string }

const gauge = (help: string): Definition => ({ type: 'gauge', help })
const counter = (help: string): Definition => ({ type: 'counter', help })

export const measures = {
  up: gauge(
    '1 if Postgres answered the last query of the agent, else 0. The agent queries an idle Postgres every 20 minutes.',
  ),
  start_time_seconds: gauge('When Postgres was started, in seconds since the epoch.'),
  connections: gauge('Client sessions.'),
  connections_active: gauge('Client sessions that run a statement.'),
  connections_idle_in_transaction: gauge('Client sessions that are idle in an open transaction.'),
  connections_limit: gauge('Maximum number of concurrent client sessions.'),
  oldest_transaction_seconds: gauge('Age of the oldest open transaction.'),
  sessions: counter('Client sessions that were started.'),
  transactions_committed: counter('Transactions that were committed.'),
  transactions_rolled_back: counter('Transactions that were rolled back.'),
  blocks_hit: counter('Blocks that were found in the cache.'),
  blocks_read: counter('Blocks that had to be read.'),
  wal_bytes: counter("WAL position in bytes. A branch or a restored database starts at its source's position."),
  volume_used_bytes: gauge('Used space on the volume.'),
  volume_size_bytes: gauge('Size of the volume.'),
  replicas: gauge('Replicas that are connected.'),
  replication_lag_bytes: gauge('WAL that the slowest replica has not replayed yet.'),
  replication_lag_seconds: gauge('Time that the slowest replica takes to replay new WAL.'),
  slots_retained_bytes: gauge('WAL that Postgres keeps for the slowest replication slot.'),
  locks: gauge('Locks that transactions hold.'),
  locks_waiting: gauge('Locks that transactions wait for.'),
  deadlocks: counter('Deadlocks.'),
  transaction_age: gauge(
    'Age of the oldest unfrozen transaction id, in transactions. Near 2.1 billion, Postgres refuses writes.',
  ),
  multixact_age: gauge(
    'Age of the oldest multixact id, in multixacts. Near 2.1 billion, Postgres refuses new multixacts.',
  ),
  checksum_failures: counter('Pages that did not match their checksum.'),
  database_bytes: gauge(
    'Size of the application database, measured every five minutes, or every 20 minutes if Postgres is idle.',
  ),
} as const satisfies Record<string, Definition>

export type Measure = keyof typeof measures
export const measureNames = Object.keys(measures) as Measure[]

/** The measured values at a time, in ms since the epoch. Null: unknown at that time. */
export type Sample = { at: number; values: Record<Measure, number | null> }

/** The name in Prometheus. A counter's name ends with `_total` (OpenMetrics). */
export const metricName = (measure: Measure): string =>
  `espalier_postgres_${measure}${measures[measure].type === 'counter' ? '_total' : ''}`

/** The label that identifies the metrics of one database or branch: its id. */
export const idLabel = 'espalier_id'
