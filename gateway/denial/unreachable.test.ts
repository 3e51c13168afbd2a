import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createUnreachable } from './unreachable.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function open() {
  let reports = 0
  const unreachable = createUnreachable({ now: Date.now, onReport: () => void reports++ })
  return { unreachable, reports: () => reports }
}

describe('unreachable databases', () => {
  test('are reported at once, and each only once per interval, however often clients connect', () => {
    const { unreachable, reports } = open()
    for (let count = 0; count < 1_000; count++) unreachable.report(5432)
    expect(unreachable.ports()).toEqual([5432])
    expect(reports()).toBe(1)
    vi.advanceTimersByTime(15_000)
    expect(unreachable.ports()).toEqual([])
    unreachable.report(5432)
    expect(reports()).toBe(2)
  })

  test('are reported together if there are many', () => {
    const { unreachable, reports } = open()
    for (let port = 6000; port < 7000; port++) unreachable.report(port)
    expect(unreachable.ports()).toHaveLength(20)
    expect(reports()).toBe(1)
    vi.advanceTimersByTime(1_000)
    expect(reports()).toBe(2)
    vi.advanceTimersByTime(10_000)
    expect(reports()).toBe(2)
  })
})
