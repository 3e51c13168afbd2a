import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainSpec } from '../../testing/samples.ts'
import { isServing, nextBackup, offsetIn, scheduleOf } from './due.ts'

const at = (text: string) => Date.parse(text)
const hourMs = 3600_000
const id = '01a203cf-90f3-7cb2-be82-e3a79bb37317'

describe('a schedule', () => {
  test('is due once a night, each database at its own time within the hour', () => {
    const now = at('2026-11-22T12:00:00Z')
    const offset = offsetIn(hourMs, id)
    expect(scheduleOf({}, id, hourMs, now)).toEqual({
      state: 'on',
      last: at('2026-11-22T02:00:00Z') + offset,
      next: at('2026-11-23T02:00:00Z') + offset,
    })
    const offsets = Array.from({ length: 600 }, (_, index) =>
      Math.floor(offsetIn(hourMs, `database ${index}`) / 60_000),
    )
    expect(new Set(offsets).size).toBe(60)
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
    ['that is due at this moment', '0 12 * * *', { last: at('2026-11-22T12:00:00Z') }],
    ['that is never due', '0 0 31 2 *', { state: 'on', next: undefined }],
    ['that is off', 'off', { state: 'off' }],
    ['that is invalid', 'daily', { state: 'invalid', message: expect.stringMatching(/^invalid configuration/) }],
    ['with six fields, of which one would be seconds', '0 0 4 * * *', { state: 'invalid' }],
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
  const taken = { createdAt: at('2026-01-01T00:00:00Z'), doneUpTo: undefined, requestedAt: [], isUnderWay: false }
  const offset = { id, spreadMs: hourMs, operatorStartedAt: at('2026-11-20T00:00:00Z'), now: last }
  const none = undefined

  test.each<[string, Partial<typeof taken> | { doneUpTo: number } | { requestedAt: number[] }, boolean]>([
    ['if none was taken', {}, true],
    ['not if the database was created later', { createdAt: last + 1 }, false],
    ['not if the database was created at that moment', { createdAt: last }, false],
    [
      'if the last one was for an earlier time',
      { requestedAt: [last - 24 * hourMs], doneUpTo: last - 24 * hourMs },
      true,
    ],
    ['not if one was requested later', { requestedAt: [last + 1_000] }, false],
    ['not if one was requested in that second', { requestedAt: [last] }, false],
    ['not if it is recorded as taken and was deleted', { doneUpTo: last }, false],
    ['not while one is being taken', { isUnderWay: true }, false],
  ])('%s', (_, more, isDue) => {
    expect(nextBackup(schedule, { ...taken, ...more }, offset)).toEqual(isDue ? { dueAt: last, takeAt: last } : none)
  })

  test('never before the first scheduled time', () => {
    expect(nextBackup({ ...schedule, last: undefined }, taken, offset)).toBe(none)
  })

  test("at once if at most ten minutes late, later at the database's own time", () => {
    const takeAt = (lateMs: number) => nextBackup(schedule, taken, { ...offset, now: last + lateMs })?.takeAt
    expect(takeAt(600_000)).toBe(last)
    expect(takeAt(600_001)).toBe(offset.operatorStartedAt + offsetIn(hourMs, id))
  })

  test("once if several were missed, spread over the time after the operator's start", () => {
    const now = last + 8 * hourMs
    const operatorStartedAt = now - 60_000
    const due = nextBackup(
      schedule,
      { ...taken, requestedAt: [last - 72 * hourMs] },
      { ...offset, operatorStartedAt, now },
    )
    expect(due).toEqual({ dueAt: last, takeAt: operatorStartedAt + offsetIn(hourMs, id) })
  })
})

test.each<[string, boolean, 'True' | 'False' | undefined, boolean]>([
  ['that serves', false, 'True', true],
  ['that does not serve', false, 'False', false],
  ['that has not served yet', false, undefined, false],
  ['that serves and is to be suspended', true, 'True', false],
])('a database %s is backed up: %s, %s -> %s', (_, suspended, status, expected) => {
  const ready = { type: 'Ready', reason: 'R', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
  const conditions = status === undefined ? [] : [{ ...ready, status }]
  expect(isServing({ spec: { ...plainSpec, suspended }, status: { conditions } })).toBe(expected)
})
