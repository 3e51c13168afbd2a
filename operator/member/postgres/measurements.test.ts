/**
 * When a size is measured, and what is stored: the size of the data, and the use of a volume that grows automatically.
 */
import { describe, expect, test } from 'vitest'
import { createFakePostgres } from '../../testing/fake-postgres.ts'
import { eventually, silent } from '../../testing/installation.ts'
import {
  afterMeasurement,
  dataSize,
  type Measured,
  Measurements,
  type MeasureRequest,
  nextMeasurement,
  volumeUse,
} from './measurements.ts'

const megabyte = 2 ** 20
const measured: Measured = {
  ...{ at: 1_000_000, tookMs: 10, failures: 0, bytes: 50 * megabyte },
  ...{ isChanging: true, walPosition: '0/1' },
}

describe('the size of the data', () => {
  const next = (last: Measured | undefined, walPosition: string) => nextMeasurement(dataSize, last, walPosition)
  test('is measured at once the first time, and not again until WAL advances', () => {
    expect(next(undefined, '0/1')).toBe(0)
    expect(next(measured, '0/1')).toBeUndefined()
  })
  test('is measured ten minutes after the last time if WAL has advanced, later if the measurement took long', () => {
    expect(next(measured, '0/2')).toBe(1_600_000)
    expect(next({ ...measured, isChanging: false }, '0/2')).toBe(1_600_000)
    expect(next({ ...measured, tookMs: 60_000 }, '0/2')).toBe(1_000_000 + 6_000_000)
  })
  test('is measured after twice the pause with each failure, at most after a day', () => {
    expect(next({ ...measured, failures: 1 }, '0/1')).toBe(1_000_000 + 1_200_000)
    expect(next({ ...measured, failures: 30 }, '0/1')).toBe(1_000_000 + 86_400_000)
  })
})

describe('the use of a volume', () => {
  const next = (last?: Measured) => nextMeasurement(volumeUse, last, undefined)
  test('is measured at once the first time, then after a minute if it changes, or after five minutes', () => {
    expect(next()).toBe(0)
    expect(next(measured)).toBe(1_060_000)
    expect(next({ ...measured, isChanging: false })).toBe(1_300_000)
  })
  test('is measured for at most a hundredth of the time, but at least every hour', () => {
    expect(next({ ...measured, tookMs: 3_000 })).toBe(1_300_000)
    expect(next({ ...measured, failures: 30 })).toBe(1_000_000 + 3_600_000)
  })
})

test('a difference below 1 MiB is no change, and a failure keeps the previous size and WAL position', () => {
  const ended = { at: 2, tookMs: 1 }
  const more = (bytes: number) => afterMeasurement(measured, { ...ended, result: { bytes, walPosition: '0/2' } })
  expect(more(50.5 * megabyte)).toMatchObject({ isChanging: false, failures: 0, walPosition: '0/2' })
  expect(more(52 * megabyte)).toMatchObject({ isChanging: true })
  expect(afterMeasurement(measured, { ...ended, result: undefined })).toMatchObject({
    ...{ bytes: 50 * megabyte, failures: 1, walPosition: '0/1' },
  })
  const first = afterMeasurement(undefined, { ...ended, result: { bytes: 5, walPosition: undefined } })
  expect(first).toMatchObject({ isChanging: true })
})

type Access = MeasureRequest['access']
const requestOf = (access: Partial<Access>, more: Partial<MeasureRequest> = {}): MeasureRequest => ({
  ...{ key: 'a', access: { ...createFakePostgres().access, ...access } },
  ...{ target: { host: 'h', port: 1, serverName: 's', ca: '' }, run: 'r', ...more },
})

describe('measurements', () => {
  const open = (measurement = dataSize) => {
    let now = 1_000_000
    const measured: string[] = []
    const measurements = new Measurements(measurement, {
      now: () => now,
      onMeasured: key => measured.push(key),
      logger: silent,
    })
    const later = (ms: number) => {
      now += ms
    }
    return { measurements, measuredKeys: measured, later, now: () => now }
  }

  test('report a size once, and are not repeated until WAL advances', async () => {
    const { measurements, measuredKeys, later } = open()
    let queries = 0
    const measure = async () => {
      queries++
      return 5
    }
    measurements.request(requestOf({ measure }, { walPosition: '0/1' }))
    await eventually(
      () => measurements.get('a'),
      bytes => bytes === 5,
    )
    later(3_600_000)
    measurements.request(requestOf({ measure }, { walPosition: '0/1' }))
    expect([queries, measuredKeys]).toEqual([1, ['a']])
    measurements.request(requestOf({ measure }, { walPosition: '0/2' }))
    expect(queries).toBe(2)
    await measurements.stop()
  })

  test('are cancelled by a new run of Postgres, and when the operator stops', async () => {
    const { measurements } = open()
    const signals: AbortSignal[] = []
    const measure: Access['measure'] = (_, signal) => {
      signals.push(signal)
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    measurements.request(requestOf({ measure }))
    measurements.request(requestOf({ measure }))
    expect(signals).toHaveLength(1)
    measurements.request(requestOf({ measure }, { run: 'next' }))
    await eventually(
      () => signals.length,
      count => count === 2,
    )
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
    expect(measurements.get('a')).toBeUndefined()
    await measurements.stop()
    expect(signals[1]?.aborted).toBe(true)
  })

  test('run for two databases at the same time', async () => {
    const { measurements } = open()
    let atOnce = 0
    const gate = Promise.withResolvers<number>()
    const measure = () => {
      atOnce++
      return gate.promise
    }
    for (const key of ['a', 'b', 'c', 'd']) measurements.request(requestOf({ measure }, { key }))
    expect(atOnce).toBe(2)
    gate.resolve(7)
    await eventually(
      () => measurements.get('d'),
      bytes => bytes === 7,
    )
    await measurements.stop()
  })

  test('of a volume are reported each time, and return the time of the next', async () => {
    const { measurements, measuredKeys, later, now } = open(volumeUse)
    let bytes = 10 * megabyte
    const request = requestOf({ measureVolume: async () => bytes })
    const measure = async (count: number) => {
      expect(measurements.request(request)).toBeUndefined()
      await eventually(
        () => measuredKeys.length,
        times => times === count,
      )
    }
    await measure(1)
    expect([measurements.get('a'), measurements.request(request)]).toEqual([bytes, now() + 60_000])
    later(60_000)
    bytes += 5 * megabyte
    await measure(2)
    expect([measurements.get('a'), measurements.request(request)]).toEqual([bytes, now() + 60_000])
    later(60_000)
    await measure(3)
    expect(measurements.request(request)).toBe(now() + 300_000)
    measurements.forget('a')
    expect(measurements.get('a')).toBeUndefined()
    await measurements.stop()
  })
})
