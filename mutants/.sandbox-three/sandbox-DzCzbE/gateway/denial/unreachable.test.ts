// @ts-nocheck
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createUnreachable } from './unreachable.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function open() {
  let told = 0
  const unreachable = createUnreachable({ now: Date.now, onReport: () => void told++ })
  return { unreachable, told: () => told }
}

describe('databases out of reach', () => {
  test('are told at once, each once in a while, however often it is tried', () => {
    const { unreachable, told } = open()
    for (let count = 0; count < 1_000; count++) unreachable.report(5432)
    expect(unreachable.ports()).toEqual([5432])
    expect(told()).toBe(1)
    vi.advanceTimersByTime(15_000)
    expect(unreachable.ports()).toEqual([])
    unreachable.report(5432)
    expect(told()).toBe(2)
  })

  test('that are many are told together', () => {
    const { unreachable, told } = open()
    for (let port = 6000; port < 7000; port++) unreachable.report(port)
    expect(unreachable.ports()).toHaveLength(20)
    expect(told()).toBe(1)
    vi.advanceTimersByTime(1_000)
    expect(told()).toBe(2)
    vi.advanceTimersByTime(10_000)
    expect(told()).toBe(2)
  })
})
