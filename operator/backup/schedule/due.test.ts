import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainSpec } from '../../testing/samples.ts'
import { isServing, nextBackup, placeIn, scheduleOf } from './due.ts'

const at = (text: string) => Date.parse(text)
const hourMs = 3600_000
const id = '01a203cf-90f3-7cb2-be82-e3a79bb37317'

describe('a schedule', () => {
  test('is due once a night, each database at its own time within the hour', () => {
    const now = at('2026-11-22T12:00:00Z')
    const place = placeIn(hourMs, id)
    expect(scheduleOf({}, id, hourMs, now)).toEqual({
      state: 'on',
      last: at('2026-11-22T02:00:00Z') + place,
      next: at('2026-11-23T02:00:00Z') + place,
    })
    const places = Array.from({ length: 600 }, (_, index) => Math.floor(placeIn(hourMs, `database ${index}`) / 60_000))
    expect(new Set(places).size).toBe(60)
  })

  test('is due at the same second whenever it is computed', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.integer({ min: 0, max: 10 ** 13 }), (some, now) => {
        const schedule = scheduleOf({}, some, hourMs, now)
        if (schedule.state !== 'on') throw new Error('on')
        const { last = 0, next = 0 } = schedule
        expect(last <= now && now < next && next - last === 24 * hourMs && last % 1000 === 0).toBe(true)
      }),
    )
  })

  test.each<[string, string | undefined, object]>([
    ['of its own', '30 4 * * 1', { last: at('2026-11-16T04:30:00Z'), next: at('2026-11-23T04:30:00Z') }],
    ['of this very moment', '0 12 * * *', { last: at('2026-11-22T12:00:00Z') }],
    ['that never comes', '0 0 31 2 *', { state: 'on', next: undefined }],
    ['that is off', 'off', { state: 'off' }],
    ['that cannot be read', 'daily', { state: 'invalid', message: expect.stringMatching(/^invalid configuration/) }],
    ['with seconds, which there are not', '0 0 4 * * *', { state: 'invalid' }],
  ])('%s', (_, schedule, expected) => {
    expect(
      scheduleOf(schedule === undefined ? {} : { schedule }, id, hourMs, at('2026-11-22T12:00:00Z')),
    ).toMatchObject(expected)
  })
})

test('a schedule is in UTC, wherever the operator runs', () => {
  const before = process.env.TZ
  process.env.TZ = 'Asia/Tokyo'
  try {
    expect(scheduleOf({ schedule: '30 4 * * *' }, id, hourMs, at('2026-11-22T12:00:00Z'))).toEqual({
      ...{ state: 'on', last: at('2026-11-22T04:30:00Z'), next: at('2026-11-23T04:30:00Z') },
    })
  } finally {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  }
})

describe('a backup is due', () => {
  const last = at('2026-11-22T02:00:00Z')
  const schedule = { state: 'on' as const, last, next: undefined }
  const taken = { createdAt: at('2026-01-01T00:00:00Z'), doneUpTo: undefined, askedAt: [], isUnderWay: false }
  const place = { id, spreadMs: hourMs, operatorStartedAt: at('2026-11-20T00:00:00Z'), now: last }
  const none = undefined

  test.each<[string, Partial<typeof taken> | { doneUpTo: number } | { askedAt: number[] }, boolean]>([
    ['where none was taken', {}, true],
    ['not from before there was the database', { createdAt: last + 1 }, false],
    ['nor from the moment it was asked for', { createdAt: last }, false],
    ['where the last one was another', { askedAt: [last - 24 * hourMs], doneUpTo: last - 24 * hourMs }, true],
    ['not where it was asked for', { askedAt: [last + 1_000] }, false],
    ['nor where that was on the second', { askedAt: [last] }, false],
    ['not where it was, and is deleted since', { doneUpTo: last }, false],
    ['not while one is taken', { isUnderWay: true }, false],
  ])('%s', (_, more, isDue) => {
    expect(nextBackup(schedule, { ...taken, ...more }, place)).toEqual(isDue ? { dueAt: last, takeAt: last } : none)
  })

  test('never before the first scheduled time', () => {
    expect(nextBackup({ ...schedule, last: undefined }, taken, place)).toBe(none)
  })

  test("at once if at most ten minutes late, later at the database's own time", () => {
    const takeAt = (lateMs: number) => nextBackup(schedule, taken, { ...place, now: last + lateMs })?.takeAt
    expect(takeAt(600_000)).toBe(last)
    expect(takeAt(600_001)).toBe(place.operatorStartedAt + placeIn(hourMs, id))
  })

  test("once if several were missed, spread over the time after the operator's start", () => {
    const now = last + 8 * hourMs
    const operatorStartedAt = now - 60_000
    const due = nextBackup(schedule, { ...taken, askedAt: [last - 72 * hourMs] }, { ...place, operatorStartedAt, now })
    expect(due).toEqual({ dueAt: last, takeAt: operatorStartedAt + placeIn(hourMs, id) })
  })
})

test.each<[string, boolean, 'True' | 'False' | undefined, boolean]>([
  ['that serves', false, 'True', true],
  ['that does not', false, 'False', false],
  ['that has not come to', false, undefined, false],
  ['that is to be suspended, and still serves', true, 'True', false],
])('a database %s is backed up: %s, %s -> %s', (_, suspended, status, expected) => {
  const ready = { type: 'Ready', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
  const conditions = status === undefined ? [] : [{ ...ready, status }]
  expect(isServing({ spec: { ...plainSpec, suspended }, status: { conditions } })).toBe(expected)
})
