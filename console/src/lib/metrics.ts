/** Measurements as plots: one for each unit of a series. Pure. */
import type { Schemas } from '../api/client.ts'
import { bytes } from './format.ts'

type Series = Schemas['MetricSeries']
type Value = number | null
type Unit = 'bytes' | 'bytes/s' | 'seconds' | 'ratio' | 'per second' | 'count'

/** `times` are in seconds, as uPlot has them. */
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

/** Where rows are missing a row without values is added, so that no line is drawn across the gap. */
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

/** A start time is no measurement: `startsIn` returns it. */
const server = 'server'

/** Plots of what has been measured; columns without any value are left out. */
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

/** A file system of its own is about as large as its volume. */
const sharedFrom = 2

/**
 * The measured size of the volume, if that is of a file system that others share: a directory as a volume, as on one
 * machine, has no size of its own. @param volumeBytes what the database has
 */
export function sharedBytes(all: readonly Series[], volumeBytes: number): number | undefined {
  const { columns = [], values = [] } = all.find(({ name }) => name === 'volume') ?? {}
  const column = columns.indexOf('size_bytes')
  const size = values.map(row => numberOf(row[column])).findLast(value => value !== null)
  return size != null && volumeBytes > 0 && size >= volumeBytes * sharedFrom ? size : undefined
}

/** `status`: of an operation. */
type Happened = { key: string; at: number; name: string; status?: string }
type Task = { id: string; name: string; created_at: string; status: string }
type Backup = { id: string; created_at: string; status: string }

const backupTask = 'backup-managed'

/** The starts of Postgres's first process in a time, for example after an eviction. It survives a crash of a session. */
export function startsIn(all: readonly Series[], from: number, to: number): Happened[] {
  const { columns = [], values = [] } = all.find(({ name }) => name === server) ?? {}
  const column = columns.indexOf('start_time_seconds')
  const times = new Set(values.map(row => numberOf(row[column])).filter(seconds => seconds !== null))
  return [...times]
    .map(seconds => seconds * 1000)
    .filter(at => at >= from && at <= to)
    .map(at => ({ key: `start ${at}`, at, name: 'start-postgres' }))
}

/** Operations and backups of a time, oldest first. A backup that an operation took is that operation. */
export function eventsIn(tasks: readonly Task[], backups: readonly Backup[], from: number, to: number): Happened[] {
  const operations = tasks.map(({ id, name, created_at, status }) => ({
    key: id,
    at: Date.parse(created_at),
    name,
    status,
  }))
  const taken = operations.filter(({ name }) => name === backupTask).map(({ at }) => at)
  const scheduled = backups
    .map(({ id, created_at, status }) => ({ key: id, at: Date.parse(created_at), name: backupTask, status }))
    .filter(({ at }) => !taken.some(one => Math.abs(one - at) < 5000))
  return [...operations, ...scheduled].filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at)
}
