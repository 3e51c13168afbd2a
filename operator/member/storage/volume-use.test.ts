/** How often a volume is looked at that is to grow by itself. */
import { describe, expect, test } from 'vitest'
import { createFakePostgres } from '../../testing/fake-postgres.ts'
import { eventually, silent } from '../../testing/installation.ts'
import { afterUse, createVolumeUse, type MeasuredUse, nextUse, type UseRequest } from './volume-use.ts'

const megabyte = 2 ** 20
const measured: MeasuredUse = { at: 1_000_000, tookMs: 10, failures: 0, bytes: 50 * megabyte, isChanging: true }

describe('the next look', () => {
  test('is at once the first time, in a minute while it changes, and in five where it does not', () => {
    expect(nextUse(undefined)).toBe(0)
    expect(nextUse(measured)).toBe(1_060_000)
    expect(nextUse({ ...measured, isChanging: false })).toBe(1_300_000)
  })
  test('takes a hundredth of the time at most, and comes an hour later at the latest', () => {
    expect(nextUse({ ...measured, tookMs: 3_000 })).toBe(1_300_000)
    expect(nextUse({ ...measured, failures: 30 })).toBe(1_000_000 + 3_600_000)
  })
})

test('a trifle is no change, a look in vain keeps what was known', () => {
  const more = (bytes: number | undefined) => afterUse(measured, { at: 2, tookMs: 1, bytes })
  expect(more(50.5 * megabyte)).toMatchObject({ isChanging: false, failures: 0 })
  expect(more(52 * megabyte)).toMatchObject({ isChanging: true })
  expect(more(undefined)).toMatchObject({ bytes: 50 * megabyte, failures: 1 })
  expect(afterUse(undefined, { at: 2, tookMs: 1, bytes: 5 })).toMatchObject({ isChanging: true })
})

test('tells each time that it has looked, and when it does next', async () => {
  let now = 1_000_000
  let bytes = 10 * megabyte
  const told: string[] = []
  const use = createVolumeUse({ now: () => now, onMeasured: key => told.push(key), logger: silent })
  const access = { ...createFakePostgres().access, measureVolume: async () => bytes }
  const request: UseRequest = { key: 'a', access, target: { host: 'h', port: 1, serverName: 's', ca: '' }, run: 'r' }
  const look = async (count: number) => {
    expect(use.request(request)).toBeUndefined()
    await eventually(
      () => told.length,
      times => times === count,
    )
  }
  await look(1)
  expect([use.get('a'), use.request(request)]).toEqual([bytes, now + 60_000])
  now += 60_000
  bytes += 5 * megabyte
  await look(2)
  expect([use.get('a'), use.request(request)]).toEqual([bytes, now + 60_000])
  now += 60_000
  await look(3)
  expect(use.request(request)).toBe(now + 300_000)
  use.forget('a')
  expect(use.get('a')).toBeUndefined()
  await use.stop()
})
