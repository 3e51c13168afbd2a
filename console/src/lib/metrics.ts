/** Converts metrics to plots. A series has one plot for each of its units. Pure. */
import type { Schemas } from '../api/client.ts'
import { bytes } from './format.ts'

type Series = Schemas['MetricSeries']
type Value = number | null
type Unit = 'bytes' | 'bytes/s' | 'seconds' | 'ratio' | 'per second' | 'count'

/** `times` are in seconds, because uPlot expects seconds. */
export type PlotData = {
  key: string
  series: string
  unit: Unit
  columns: string[]
  times: number[]
  values: Value[][]
}

export const ranges = {
  '15m': { ms: 15 * 60_000, interval: '30 seconds' },
  '1h': { ms: 3600_000, interval: '1 minute' },
  '2h': { ms: 2 * 3600_000, interval: '1 minute' },
  '24h': { ms: 24 * 3600_000, interval: '10 minutes' },
  '7d': { ms: 7 * 24 * 3600_000, interval: '1 hour' },
} as const
export type Range = keyof typeof ranges
export const rangeNames = ['15m', '1h', '2h', '24h', '7d'] as const satisfies Range[]

export const intervalMs: Record<Range, number> = {
  ...{ '15m': 30_000, '1h': 60_000, '2h': 60_000, '24h': 600_000, '7d': 3600_000 },
}

export function unitOf(column: string): Unit {
  if (column.endsWith('bytes_per_second')) return 'bytes/s'
  if (column.endsWith('bytes')) return 'bytes'
  if (column.endsWith('_per_second')) return 'per second'
  if (column.endsWith('seconds')) return 'seconds'
  return column.endsWith('_ratio') ? 'ratio' : 'count'
}

export function amountOf(value: Value, unit: Unit): string {
  if (value === null || !Number.isFinite(value)) return '–'
  if (unit === 'bytes') return bytes(value)
  if (unit === 'bytes/s') return `${bytes(value)}/s`
  if (unit === 'ratio') return `${(value * 100).toFixed(1)} %`
  const figure = value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) >= 100 ? 0 : 2 })
  return unit === 'seconds' ? `${figure} s` : unit === 'per second' ? `${figure}/s` : figure
}

const numberOf = (value: unknown): Value => (typeof value === 'number' ? value : null)

/** Inserts a row without values where rows are missing, so that the plot draws no line across the gap. */
function withGaps(rows: readonly [number, Value[]][], everySeconds: number): [number, Value[]][] {
  return rows.flatMap(([time, values], index): [number, Value[]][] => {
    const before = rows[index - 1]
    const isGap = before !== undefined && time - before[0] > everySeconds * 1.5
    return isGap
      ? [
          [before[0] + everySeconds, values.map(() => null)],
          [time, values],
        ]
      : [[time, values]]
  })
}

/** The series with start times of Postgres. It has no plot: `startsIn` returns the start times as events. */
const server = 'server'

/** Returns the plots of all series. Omits columns without values. */
export function plotsOf(all: readonly Series[], everyMs: number): PlotData[] {
  return all
    .filter(({ name }) => name !== server)
    .flatMap(({ name, columns, values: rows }) => {
      const parsed = rows.map((row): [number, Value[]] => [
        Date.parse(String(row[0])) / 1000,
        row.slice(1).map(numberOf),
      ])
      const spaced = withGaps(parsed, everyMs / 1000)
      const known = columns
        .slice(1)
        .map((column, index) => ({ column, index, unit: unitOf(column) }))
        .filter(({ index }) => spaced.some(([, values]) => values[index] !== null && values[index] !== undefined))
      return [...Map.groupBy(known, ({ unit }) => unit)].map(([unit, group]) => ({
        ...{ key: `${name} ${unit}`, series: name, unit, columns: group.map(({ column }) => column) },
        times: spaced.map(([time]) => time),
        values: group.map(({ index }) => spaced.map(([, values]) => values[index] ?? null)),
      }))
    })
}

/**
 * A file system is shared if its size is at least this multiple of the volume. A dedicated file system is about as
 * large as its volume.
 */
const sharedFactor = 2

/**
 * Returns the size of the file system if the volume shares it with other data, for example because the volume is a
 * directory. Returns undefined if the volume has a dedicated file system, or if a size is unknown.
 * @param volumeBytes the size of the volume; 0 if it is unknown
 */
export function sharedBytes(all: readonly Series[], volumeBytes: number): number | undefined {
  const { columns = [], values = [] } = all.find(({ name }) => name === 'volume') ?? {}
  const column = columns.indexOf('size_bytes')
  const size = values.map(row => numberOf(row[column])).findLast(value => value !== null)
  return size != null && volumeBytes > 0 && size >= volumeBytes * sharedFactor ? size : undefined
}

/** An event in the plots. A start of Postgres has no `status`. */
type PlotEvent = { key: string; at: number; name: string; status?: string }
type Task = { id: string; name: string; created_at: string; status: string }
type Backup = { id: string; created_at: string; status: string }

const backupTask = 'backup-managed'

/**
 * Returns the starts of the postmaster between `from` and `to`, for example after an eviction. A crash of a
 * session is not a start, because the postmaster continues.
 */
export function startsIn(all: readonly Series[], from: number, to: number): PlotEvent[] {
  const { columns = [], values = [] } = all.find(({ name }) => name === server) ?? {}
  const column = columns.indexOf('start_time_seconds')
  const times = new Set(values.map(row => numberOf(row[column])).filter(seconds => seconds !== null))
  return [...times]
    .map(seconds => seconds * 1000)
    .filter(at => at >= from && at <= to)
    .map(at => ({ key: `start ${at}`, at, name: 'start-postgres' }))
}

/**
 * Returns the operations and backups between `from` and `to`, oldest first. Omits a backup that an operation created,
 * because the operation is listed.
 */
export function eventsIn(tasks: readonly Task[], backups: readonly Backup[], from: number, to: number): PlotEvent[] {
  const operations = tasks.map(({ id, name, created_at, status }) => ({
    key: id,
    at: Date.parse(created_at),
    name,
    status,
  }))
  const taken = operations.filter(({ name }) => name === backupTask).map(({ at }) => at)
  const scheduled = backups
    .map(({ id, created_at, status }) => ({ key: id, at: Date.parse(created_at), name: backupTask, status }))
    .filter(({ at }) => !taken.some(start => Math.abs(start - at) < 5000))
  return [...operations, ...scheduled].filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at)
}
