/**
 * From samples to series: time is cut into steps of the interval, counted from the epoch, and each has one row of what is
 * known of it. What is, is the mean of its samples; what grows is how much a second it grew from one sample to the next, also
 * over a start that set it to zero. Pure.
 */
import type { Measure, Sample } from '../../instance/agent/measures.ts'
import { timestamp } from '../../values/time.ts'
import type { Window } from './window.ts'

type Cell = number | null
export type Series = { name: string; columns: string[]; values: (string | Cell)[][] }

/** What stands in a column: a measure as it is, or how fast it grows; or a part of two that grow. */
type Column = { is: Measure } | { growth: Measure } | { share: Measure; besides: Measure }

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
}

/** Two samples, one after the other, with what is not known left out of account. */
type Pair = { before: Sample; after: Sample }
type Step = { at: number; samples: Sample[]; pairs: Pair[] }

/** How much a counter grew; one that is smaller than before began anew at zero. Null where one of both is not known. */
function growth(measure: Measure, { before, after }: Pair): number | null {
  const [from, to] = [before.values[measure], after.values[measure]]
  if (from === null || to === null) return null
  return to >= from ? to - from : to
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
const known = (values: readonly Cell[]): number[] => values.filter(value => value !== null)

function perSecond(measure: Measure, pairs: readonly Pair[]): Cell {
  const grown = pairs.flatMap(pair => {
    const by = growth(measure, pair)
    return by === null ? [] : [{ by, ms: pair.after.at - pair.before.at }]
  })
  const ms = sum(grown.map(each => each.ms))
  return ms > 0 ? (sum(grown.map(({ by }) => by)) * 1000) / ms : null
}

function cellOf(column: Column, { samples, pairs }: Step): Cell {
  if ('is' in column) {
    const values = known(samples.map(({ values: all }) => all[column.is]))
    return values.length > 0 ? sum(values) / values.length : null
  }
  if ('growth' in column) return perSecond(column.growth, pairs)
  const part = sum(known(pairs.map(pair => growth(column.share, pair))))
  const whole = part + sum(known(pairs.map(pair => growth(column.besides, pair))))
  return whole > 0 ? part / whole : null
}

/** The steps that anything is known of, in order; a pair belongs to where it ends. */
function stepsOf(samples: readonly Sample[], { startMs, endMs, intervalMs }: Window): Step[] {
  const inOrder = [...samples].sort((left, right) => left.at - right.at)
  const steps = new Map<number, Step>()
  for (const [index, after] of inOrder.entries()) {
    if (after.at < startMs || after.at >= endMs) continue
    const at = Math.floor(after.at / intervalMs) * intervalMs
    const step = steps.get(at) ?? { at, samples: [], pairs: [] }
    steps.set(at, step)
    step.samples.push(after)
    const before = inOrder[index - 1]
    if (before !== undefined && before.at < after.at) step.pairs.push({ before, after })
  }
  return [...steps.values()]
}

/** Every series, each with its columns; without rows where nothing is known. */
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
