import { expect, test } from 'vitest'
import { amountOf, eventsIn, plotsOf, sharedBytes, startsIn, unitOf } from './metrics.ts'

const time = (minute: number) => new Date(minute * 60_000).toISOString()

test('derives the unit from the name of the column', () => {
  const names = ['bytes_per_second', 'lag_bytes', 'bytes', 'calls_per_second', 'lag_seconds', 'hit_ratio', 'total']
  expect(names.map(unitOf)).toEqual(['bytes/s', 'bytes', 'bytes', 'per second', 'seconds', 'ratio', 'count'])
})

test('formats amounts with their unit, and an unknown amount as a dash', () => {
  expect(amountOf(2048, 'bytes/s')).toBe('2.0 KiB/s')
  expect(amountOf(0.987, 'ratio')).toBe('98.7 %')
  expect(amountOf(1234.5, 'count')).toBe('1,235')
  expect(amountOf(0.25, 'seconds')).toBe('0.25 s')
  expect(amountOf(null, 'count')).toBe('–')
})

test('creates a plot for each unit of a series, and omits columns without values', () => {
  const columns = ['time', 'total', 'oldest_transaction_seconds', 'limit']
  const values = [
    [time(1), 1, 0.5, null],
    [time(2), 2, null, null],
  ]
  const plots = plotsOf([{ name: 'connections', columns, values }], 60_000)
  expect(plots).toEqual([
    {
      key: 'connections count',
      series: 'connections',
      unit: 'count',
      columns: ['total'],
      times: [60, 120],
      values: [[1, 2]],
    },
    {
      ...{ key: 'connections seconds', series: 'connections', unit: 'seconds' },
      ...{ columns: ['oldest_transaction_seconds'], times: [60, 120], values: [[0.5, null]] },
    },
  ])
  expect(plotsOf([{ name: 'wal', columns: ['time', 'bytes'], values: [] }], 60_000)).toEqual([])
})

test('inserts a row without values into a gap, so that no line crosses the gap', () => {
  const values = [1, 2, 5].map(minute => [time(minute), minute])
  const [plot] = plotsOf([{ name: 'pods', columns: ['time', 'sampled'], values }], 60_000)
  expect(plot).toMatchObject({ times: [60, 120, 180, 300], values: [[1, 2, null, 5]] })
})

test('returns operations and scheduled backups of the time range as events', () => {
  const task = (id: string, name: string, minute: number) => ({
    id,
    name,
    created_at: time(minute),
    status: 'succeeded',
  })
  const backup = (id: string, minute: number) => ({ id, created_at: time(minute), status: 'completed' })
  const tasks = [task('c', 'restart-managed', 9), task('a', 'backup-managed', 2), task('old', 'restart-managed', 0)]
  const found = eventsIn(tasks, [backup('of-a', 2), backup('b', 4)], 60_000, 600_000)
  expect(found.map(({ key }) => key)).toEqual(['a', 'b', 'c'])
})

test('returns start times of Postgres as events, without a plot', () => {
  const values = [
    [time(1), 30],
    [time(2), 30],
    [time(3), 150.5],
    [time(4), null],
  ]
  const series = [{ name: 'server', columns: ['time', 'start_time_seconds'], values }]
  expect(startsIn(series, 60_000, 600_000).map(({ at, name }) => ({ at, name }))).toEqual([
    { at: 150_500, name: 'start-postgres' },
  ])
  expect(startsIn([], 0, 600_000)).toEqual([])
  expect(plotsOf(series, 60_000)).toEqual([])
})

test.each<[string, (string | number | null)[][], number, number | undefined]>([
  ['a directory on a large disk', [['t', 1, 500]], 10, 500],
  ['a file system that is slightly larger than the volume', [['t', 1, 11]], 10, undefined],
  [
    'a volume without a value in the last row',
    [
      ['t', 1, 500],
      ['u', null, null],
    ],
    10,
    500,
  ],
  ['a volume without any value', [['t', null, null]], 10, undefined],
  ['a volume of unknown size', [['t', 1, 500]], 0, undefined],
])('the shared size of %s', (_, values, volume, shared) => {
  const series = [{ name: 'volume', columns: ['time', 'used_bytes', 'size_bytes'], values }]
  expect(sharedBytes(series, volume)).toBe(shared)
})
