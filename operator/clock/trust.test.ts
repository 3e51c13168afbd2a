/** When the machine's clock is not trusted for irreversible operations, and for how long. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { assess, type ClockReading, type ClockRecord } from './trust.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
const start = Date.parse('2026-11-22T12:00:00Z')

/** A machine that runs, sleeps and boots, and whose clock is set. */
function machine() {
  let record: ClockRecord | undefined
  const at = { wall: start, elapsed: 1_000, boot: 'one', server: undefined as number | undefined }
  const observe = (): string | undefined => {
    const reading: ClockReading = { ...at }
    const judged = assess(record, reading)
    record = judged.record
    return judged.distrust
  }
  observe()
  const pass = (ms: number) => {
    at.wall += ms
    at.elapsed += ms
  }
  return {
    observe,
    later: (ms: number) => {
      pass(ms)
      return observe()
    },
    set: (ms: number) => {
      at.wall += ms
      return observe()
    },
    boot: (offMs: number, setMs = 0) => {
      at.boot = `${at.boot}+`
      at.elapsed = 500
      at.wall += offMs + setMs
      return observe()
    },
    serverIs: (offset: number) => {
      at.server = at.wall + offset
      return observe()
    },
  }
}

describe('a clock is trusted', () => {
  test('initially, while time passes, and after a sleep of any length', () => {
    const { observe, later } = machine()
    expect([observe(), later(minute), later(100 * day)]).toEqual([undefined, undefined, undefined])
  })
  test('after NTP corrects it by seconds', () => {
    const { set, later } = machine()
    expect([set(4 * minute), later(hour), set(-4 * minute)]).toEqual([undefined, undefined, undefined])
  })
  test('after a boot, and on another machine with the same time', () => {
    const { boot } = machine()
    expect([boot(minute), boot(23 * hour)]).toEqual([undefined, undefined])
  })
})

describe('a clock is not trusted', () => {
  test('for a day after it is set forward', () => {
    const { set, later } = machine()
    expect(set(100 * day)).toBe(
      'the clock was set 2400 hours ahead of the expected time; it is trusted in 1440 minutes, or when it is set back',
    )
    expect(later(day - minute)).toMatch(/it is trusted in 1 minutes/)
    expect(later(minute)).toBeUndefined()
    expect(later(day)).toBeUndefined()
  })
  test('for as long as the difference, after it is set back or forward by less than a day', () => {
    const { set, later } = machine()
    expect(set(-hour)).toMatch(/^the clock was set 60 minutes behind the expected time/)
    expect([later(59 * minute) === undefined, later(minute)]).toEqual([false, undefined])
  })
  test('after it is set forward, until it is set back', () => {
    const { set, later } = machine()
    expect(set(100 * day)).toBeDefined()
    expect(later(hour)).toBeDefined()
    expect(set(-100 * day)).toBeUndefined()
    expect(later(day)).toBeUndefined()
  })
  test('after a restart of the operator, because of the earlier record', () => {
    const { set, boot, later } = machine()
    set(100 * day)
    expect(boot(minute)).toBeDefined()
    expect(later(day)).toBeUndefined()
  })
  test('for an hour after a boot that seems more than a day later, until NTP can correct it', () => {
    const { boot, later } = machine()
    expect(boot(3 * day)).toMatch(/^the machine was off, or its clock was set: the clock is 72 hours ahead/)
    expect(later(hour)).toBeUndefined()
  })
  test('for another day, if NTP corrects it after such a boot', () => {
    const { boot, set, later } = machine()
    boot(hour, 100 * day)
    expect(set(-100 * day)).toBeDefined()
    expect(later(23 * hour)).toBeDefined()
    expect(later(hour)).toBeUndefined()
  })
  test('after a boot with a clock that is behind the record', () => {
    const { boot, later } = machine()
    expect(boot(0, -1000 * day)).toMatch(/behind the expected time/)
    expect(later(day)).toBeUndefined()
  })
  test("while it differs from the API server's", () => {
    const { serverIs } = machine()
    expect(serverIs(-6 * minute)).toBe("the clock is 6 minutes ahead of the API server's")
    expect(serverIs(6 * minute)).toBe("the clock is 6 minutes behind the API server's")
    expect(serverIs(2_000)).toBeUndefined()
  })
})

test('a clock that was set is not trusted at once, and is trusted after two days without another change', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 3 * day }) }),
    fc.record({ do: fc.constant('boot' as const), ms: fc.integer({ min: 0, max: 3 * day }) }),
    fc.record({ do: fc.constant('set' as const), ms: fc.integer({ min: -400 * day, max: 400 * day }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), fc.integer({ min: 10, max: 400 }), (steps, days) => {
      const { later, boot, set } = machine()
      for (const each of steps) ({ pass: later, boot, set })[each.do](each.ms)
      expect(later(day)).toBeUndefined()
      expect(later(day)).toBeUndefined()
      expect(set(days * day)).toBeDefined()
    }),
  )
})
