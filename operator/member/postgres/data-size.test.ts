import { describe, expect, test } from 'vitest'
import { createFakePostgres } from '../../testing/fake-postgres.ts'
import { eventually, silent } from '../../testing/installation.ts'
import { createSizes, type Measured, nextMeasure, type SizeRequest } from './data-size.ts'

const measured: Measured = { at: 1_000_000, tookMs: 10, failures: 0, bytes: 8_000_000, walPosition: '0/1' }

describe('the next measurement', () => {
  test('is at once the first time, and never where nothing was written since', () => {
    expect(nextMeasure(undefined, '0/1')).toBe(0)
    expect(nextMeasure(measured, '0/1')).toBeUndefined()
  })
  test('is ten minutes after the last where something was, and later where that took long', () => {
    expect(nextMeasure(measured, '0/2')).toBe(1_600_000)
    expect(nextMeasure({ ...measured, tookMs: 60_000 }, '0/2')).toBe(1_000_000 + 6_000_000)
  })
  test('is put off twice as long with each that came to nothing, up to a day', () => {
    expect(nextMeasure({ ...measured, failures: 1 }, '0/1')).toBe(1_000_000 + 1_200_000)
    expect(nextMeasure({ ...measured, failures: 30 }, '0/1')).toBe(1_000_000 + 86_400_000)
  })
})

describe('measuring', () => {
  const open = () => {
    let now = 1_000_000
    const told: string[] = []
    const sizes = createSizes({ now: () => now, onMeasured: key => told.push(key), logger: silent })
    const later = (ms: number) => {
      now += ms
    }
    return { sizes, told, later }
  }
  const request = (measure: SizeRequest['access']['measure'], more: Partial<SizeRequest> = {}): SizeRequest => ({
    key: 'a',
    access: { ...createFakePostgres().access, measure },
    target: { host: 'h', port: 1, serverName: 's', ca: '' },
    run: 'r',
    walPosition: '0/1',
    ...more,
  })

  test('tells of a size once, and is not asked for again where WAL stands still', async () => {
    const { sizes, told, later } = open()
    let asked = 0
    const measure = async () => {
      asked++
      return 5
    }
    sizes.request(request(measure))
    await eventually(
      () => sizes.get('a'),
      bytes => bytes === 5,
    )
    later(3_600_000)
    sizes.request(request(measure))
    expect([asked, told]).toEqual([1, ['a']])
    sizes.request(request(measure, { walPosition: '0/2' }))
    expect(asked).toBe(2)
    await sizes.stop()
  })

  test('that is slow is broken off by a new run of Postgres and at the end, and holds what was known', async () => {
    const { sizes } = open()
    const signals: AbortSignal[] = []
    const hang: SizeRequest['access']['measure'] = (_, signal) => {
      signals.push(signal)
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }
    sizes.request(request(hang))
    sizes.request(request(hang))
    expect(signals).toHaveLength(1)
    sizes.request(request(hang, { run: 'next' }))
    await eventually(
      () => signals.length,
      count => count === 2,
    )
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
    expect(sizes.get('a')).toBeUndefined()
    await sizes.stop()
    expect(signals[1]?.aborted).toBe(true)
  })

  test('is done of two databases at a time', async () => {
    const { sizes } = open()
    let atOnce = 0
    const gate = Promise.withResolvers<number>()
    const measure = () => {
      atOnce++
      return gate.promise
    }
    for (const key of ['a', 'b', 'c', 'd']) sizes.request(request(measure, { key }))
    expect(atOnce).toBe(2)
    gate.resolve(7)
    await eventually(
      () => sizes.get('d'),
      bytes => bytes === 7,
    )
    await sizes.stop()
  })
})
