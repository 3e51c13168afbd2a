/**
 * The agent's measures: the name of each measure, whether it is a counter (until Postgres resets its statistics), and
 * its description. Metrics, series, alert rules and the dashboard use these names.
 */

type Definition = { type: 'gauge' | 'counter'; help: string }

const gauge = (help: string): Definition => ({ type: 'gauge', help })
const counter = (help: string): Definition => ({ type: 'counter', help })

export const measures = {
  up: gauge('1 while Postgres answers the agent, else 0.'),
  start_time_seconds: gauge('When Postgres was started, in seconds since the epoch.'),
  connections: gauge('Sessions of clients.'),
  connections_active: gauge('Sessions of clients that run a statement.'),
  connections_idle_in_transaction: gauge('Sessions of clients that keep a transaction open and do nothing in it.'),
  connections_limit: gauge('Sessions that clients can have at once.'),
  oldest_transaction_seconds: gauge('Age of the oldest transaction that is open.'),
  sessions: counter('Sessions that clients began.'),
  transactions_committed: counter('Transactions that were committed.'),
  transactions_rolled_back: counter('Transactions that were rolled back.'),
  blocks_hit: counter('Blocks that were found in the cache.'),
  blocks_read: counter('Blocks that had to be read.'),
  wal_bytes: counter('Bytes of WAL that were written, since the database began.'),
  volume_used_bytes: gauge('Used space on the volume.'),
  volume_size_bytes: gauge('Size of the volume.'),
  replicas: gauge('Replicas that are connected.'),
  replication_lag_bytes: gauge('WAL that the slowest replica has yet to replay.'),
  replication_lag_seconds: gauge('How long the slowest replica takes to replay what was written.'),
  slots_retained_bytes: gauge('WAL that is kept for the replication slot that lags most.'),
  locks: gauge('Locks that transactions hold.'),
  locks_waiting: gauge('Locks that transactions wait for.'),
  deadlocks: counter('Deadlocks.'),
  transaction_age: gauge('Transactions since the oldest that is not frozen: at 2 billion Postgres stops.'),
  multixact_age: gauge('Multixacts since the oldest that is not frozen: at 2 billion Postgres stops.'),
  checksum_failures: counter('Pages that did not match their checksum.'),
  database_bytes: gauge('Size of the application database, measured every five minutes.'),
} as const satisfies Record<string, Definition>

export type Measure = keyof typeof measures
export const measureNames = Object.keys(measures) as Measure[]

/** The measured values at a time, in ms since the epoch. Null: unknown at that time. */
export type Sample = { at: number; values: Record<Measure, number | null> }

/** The name in Prometheus. The samples of a counter end with `_total` (OpenMetrics). */
export const metricName = (measure: Measure): string =>
  `espalier_postgres_${measure}${measures[measure].type === 'counter' ? '_total' : ''}`

/** The label that identifies the metrics of one database or branch: its id. */
export const idLabel = 'espalier_id'
