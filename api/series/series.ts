/**
 * Converts samples to series. Time is divided into steps of the interval, counted from the epoch, and each step with
 * data has one row. A gauge is the mean of its samples, and a start time is the last sample. A counter becomes its rate
 * per second between samples, also across a reset to zero.
 */
import type { Measure, Sample } from '../../instance/agent/measures.ts'
import { timestamp } from '../../values/time.ts'
import { type Cell, grownBy, lastOf, meanOf, perSecond, type Series, type Step, stepsOf } from './steps.ts'
import type { Window } from './window.ts'

/** The value of a column: a gauge, its last value in a step, the rate of a counter, or a ratio of two counters. */
type Column = { is: Measure } | { latest: Measure } | { growth: Measure } | { share: Measure; besides: Measure }

const catalogue: Record<string, Record<string, Column>> = {
  connections: {
    total: { is: 'connections' },
    active: { is: 'connections_active' },
    idle_in_transaction: { is: 'connections_idle_in_transaction' },
    limit: { is: 'connections_limit' },
    oldest_transaction_seconds: { is: 'oldest_transaction_seconds' },
  },
  sessions: { begun_per_second: { growth: 'sessions' } },
  transactions: {
    committed_per_second: { growth: 'transactions_committed' },
    rolled_back_per_second: { growth: 'transactions_rolled_back' },
  },
  cache: { hit_ratio: { share: 'blocks_hit', besides: 'blocks_read' }, read_per_second: { growth: 'blocks_read' } },
  wal: { bytes_per_second: { growth: 'wal_bytes' } },
  volume: { used_bytes: { is: 'volume_used_bytes' }, size_bytes: { is: 'volume_size_bytes' } },
  replication: {
    replicas: { is: 'replicas' },
    lag_bytes: { is: 'replication_lag_bytes' },
    lag_seconds: { is: 'replication_lag_seconds' },
    slots_retained_bytes: { is: 'slots_retained_bytes' },
  },
  locks: {
    held: { is: 'locks' },
    waiting: { is: 'locks_waiting' },
    deadlocks_per_second: { growth: 'deadlocks' },
  },
  wraparound: { transaction_age: { is: 'transaction_age' }, multixact_age: { is: 'multixact_age' } },
  checksums: { failures: { is: 'checksum_failures' } },
  database: { bytes: { is: 'database_bytes' } },
  server: { start_time_seconds: { latest: 'start_time_seconds' } },
}

function cellOf(column: Column, step: Step): Cell {
  if ('is' in column) return meanOf(column.is, step)
  if ('latest' in column) return lastOf(column.latest, step)
  if ('growth' in column) return perSecond(column.growth, step)
  const part = grownBy(column.share, step) ?? 0
  const total = part + (grownBy(column.besides, step) ?? 0)
  return total > 0 ? part / total : null
}

/** Returns every series with its columns. Without data, a series has no rows. */
export function seriesOf(samples: readonly Sample[], window: Window): Series[] {
  const steps = stepsOf(samples, window)
  return Object.entries(catalogue).map(([name, columns]) => {
    const rows = steps.map(step => [timestamp(step.at), ...Object.values(columns).map(column => cellOf(column, step))])
    return {
      name,
      columns: ['time', ...Object.keys(columns)],
      values: rows.filter(([, ...cells]) => cells.some(cell => cell !== null)),
    }
  })
}
