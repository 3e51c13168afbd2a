import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Measure, measureNames, type Sample } from '../../instance/agent/measures.ts'
import { interval, intervalMs } from './interval.ts'
import { seriesOf } from './series.ts'
import { type Window, windowOf } from './window.ts'

const minute = 60_000
const start = Date.parse('2026-01-01T12:00:00Z')
const none = Object.fromEntries(measureNames.map(name => [name, null])) as Sample['values']
const sample = (seconds: number, values: Partial<Record<Measure, number>>): Sample => ({
  at: start + seconds * 1000,
  values: { ...none, ...values },
})
const window = (changes: Partial<Window> = {}): Window => ({
  ...{ startMs: start, endMs: start + 10 * minute, intervalMs: minute },
  ...changes,
})
const rowsOf = (name: string, samples: Sample[], changes: Partial<Window> = {}) =>
  seriesOf(samples, window(changes)).find(series => series.name === name)?.values
const column = (name: string, index: number, samples: Sample[], changes: Partial<Window> = {}) =>
  (rowsOf(name, samples, changes) ?? []).map(row => row[index])

describe('series', () => {
  test('contain the mean of gauges, per step', () => {
    const samples = [sample(0, { connections: 1 }), sample(30, { connections: 3 }), sample(60, { connections: 9 })]
    expect(rowsOf('connections', samples)).toEqual([
      ['2026-01-01T12:00:00Z', 2, null, null, null, null],
      ['2026-01-01T12:01:00Z', 9, null, null, null, null],
    ])
  })

  test('contain the last start time of a step', () => {
    const samples = [10, 10, 75].map((started, index) => sample(30 * index, { start_time_seconds: started }))
    expect(column('server', 1, samples)).toEqual([10, 75])
    expect(column('server', 1, samples, { intervalMs: 10 * minute })).toEqual([75])
  })

  test('contain the rate of counters per second, starting at the sample before the window', () => {
    const grown = [-30, 0, 30, 60].map((at, index) => sample(at, { transactions_committed: 1000 + 300 * index }))
    expect(column('transactions', 1, grown)).toEqual([10, 10])
    expect(column('transactions', 1, grown.slice(1))).toEqual([10, 10])
    expect(column('transactions', 1, grown.slice(3))).toEqual([])
  })

  test('treat a smaller counter value as a reset', () => {
    const samples = [sample(0, { wal_bytes: 9000 }), sample(30, { wal_bytes: 60 })]
    expect(column('wal', 1, samples)).toEqual([2])
  })

  test('contain the ratio of cache hits, and none without reads', () => {
    const blocks = (at: number, hit: number, read: number) => sample(at, { blocks_hit: hit, blocks_read: read })
    expect(column('cache', 1, [blocks(0, 0, 0), blocks(30, 90, 10), blocks(60, 90, 10)])).toEqual([0.9, null])
  })

  test('without data have no rows', () => {
    const series = seriesOf([], window())
    expect(series.map(({ name }) => name)).toEqual([
      ...[
        'connections',
        'sessions',
        'transactions',
        'cache',
        'wal',
        'volume',
        'replication',
        'locks',
        'wraparound',
        'checksums',
      ],
      ...['database', 'server'],
    ])
    expect(series.every(({ columns, values }) => columns[0] === 'time' && values.length === 0)).toBe(true)
    expect(rowsOf('connections', [sample(0, {})])).toEqual([])
    expect(rowsOf('connections', [sample(-1, { connections: 1 }), sample(600, { connections: 1 })])).toEqual([])
  })

  test('contain every measure except `up`', () => {
    const all = Object.fromEntries(measureNames.map((name, index) => [name, index + 1])) as Record<Measure, number>
    const later = Object.fromEntries(measureNames.map((name, index) => [name, 2 * index + 2])) as Record<
      Measure,
      number
    >
    const cells = seriesOf([sample(0, all), sample(30, later)], window()).flatMap(({ values }) => values[0] ?? [])
    expect(cells).not.toContain(null)
    expect(measureNames.filter(name => name !== 'up').length).toBe(25)
  })
})

const anySamples = fc
  .array(
    fc.record({
      at: fc.integer({ min: -3600, max: 7200 }),
      connections: fc.option(fc.nat(500), { nil: undefined }),
      transactions_committed: fc.option(fc.nat(1_000_000), { nil: undefined }),
    }),
    { maxLength: 60 },
  )
  .map(list =>
    list.map(({ at, connections, transactions_committed }) =>
      sample(at, {
        ...(connections === undefined ? {} : { connections }),
        ...(transactions_committed === undefined ? {} : { transactions_committed }),
      }),
    ),
  )
const anyInterval = fc.constantFrom(1000, 7000, 30_000, minute, 5 * minute, 3600_000, 86_400_000)

describe('any samples', () => {
  test('rows are in order, at steps of the interval, and within the limit', () => {
    fc.assert(
      fc.property(anySamples, anyInterval, (samples, step) => {
        const requested = window({ intervalMs: step })
        for (const { columns, values } of seriesOf(samples, requested)) {
          const times = values.map(([time]) => Date.parse(String(time)))
          expect(times).toEqual([...new Set(times)].sort((left, right) => left - right))
          expect(times.every(at => at % step === 0 && at > requested.startMs - step && at < requested.endMs)).toBe(true)
          expect(values.length).toBeLessThanOrEqual((requested.endMs - requested.startMs) / step + 1)
          expect(values.every(row => row.length === columns.length)).toBe(true)
        }
      }),
    )
  })

  test('a mean is within the range of its samples, and no rate is negative', () => {
    fc.assert(
      fc.property(anySamples, anyInterval, (samples, step) => {
        const known = samples.flatMap(({ values }) => values.connections ?? [])
        for (const mean of column('connections', 1, samples, { intervalMs: step })) {
          expect(mean).toBeGreaterThanOrEqual(Math.min(...known))
          expect(mean).toBeLessThanOrEqual(Math.max(...known))
        }
        const rates = column('transactions', 1, samples, { intervalMs: step })
        expect(rates.every(rate => rate === null || Number(rate) >= 0)).toBe(true)
      }),
    )
  })

  test('no growth is lost or counted twice, with any interval', () => {
    const steady = fc.array(fc.nat(10_000), { minLength: 2, maxLength: 20 })
    fc.assert(
      fc.property(steady, fc.constantFrom(30_000, minute, 2 * minute), (steps, step) => {
        let total = 0
        const samples = steps.map((by, index) => {
          total += by
          return sample(30 * index, { transactions_committed: total })
        })
        const rows = rowsOf('transactions', samples, { intervalMs: step }) ?? []
        const pairsIn = (time: unknown) =>
          samples.filter((one, index) => index > 0 && Math.floor(one.at / step) * step === Date.parse(String(time)))
        const grown = rows.reduce((sum, [time, rate]) => sum + (Number(rate) * pairsIn(time).length * 30_000) / 1000, 0)
        expect(grown).toBeCloseTo(total - (steps[0] ?? 0), 4)
      }),
    )
  })

  test('the order of the samples does not matter', () => {
    fc.assert(
      fc.property(anySamples, samples => {
        const distinct = [...new Map(samples.map(one => [one.at, one])).values()]
        expect(seriesOf(distinct.toReversed(), window())).toEqual(seriesOf(distinct, window()))
      }),
    )
  })
})

describe('an interval', () => {
  test.each([
    ['1 second', 1000],
    ['30,seconds', 30_000],
    ['5 minutes', 300_000],
    ['0002 hour', 7_200_000],
    ['9999 days', 9999 * 86_400_000],
  ])('%s is parsed', (text, ms) => {
    expect(interval.parse(text)).toBe(text)
    expect(intervalMs(text)).toBe(ms)
  })

  test.each([
    '',
    '5',
    'minute',
    '5minutes',
    '5  minutes',
    '10000 seconds',
    '-1 day',
    '1 week',
    '1 minute ',
    '1.5 hours',
    '0 days',
    '5 MINUTES',
    '5\nminutes',
  ])('%j is invalid', text => {
    expect(interval.safeParse(text).success).toBe(false)
  })
})

describe('a window', () => {
  test('is the last two hours by the minute, by default', () => {
    expect(windowOf({}, start)).toEqual({ startMs: start - 120 * minute, endMs: start, intervalMs: minute })
  })

  test('is limited to a maximum number of points', () => {
    const days = (count: number) => new Date(start - count * 86_400_000).toISOString()
    expect(() => windowOf({ start_time: days(1) }, start)).toThrow(/^interval: more than 1000 points/)
    expect(() => windowOf({ start_time: days(1), interval: '5 minutes' }, start)).not.toThrow()
    // For any interval, there are no more points than samples.
    expect(() => windowOf({ interval: '1 second' }, start)).not.toThrow()
    expect(() => windowOf({ interval: '1 second', start_time: days(1) }, start)).toThrow('more than 1000 points')
    expect(() => windowOf({ start_time: new Date(start).toISOString() }, start)).toThrow(/^start_time: must be before/)
  })
})
