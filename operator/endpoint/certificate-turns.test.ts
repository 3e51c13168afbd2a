import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createTurns, turnMs } from './certificate-turns.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const open = (atOnce: number) => {
  const told: string[] = []
  return { told, turns: createTurns({ atOnce, onTurn: key => told.push(key) }) }
}

describe('turns', () => {
  test('are given to so many at once, to the others as they came', () => {
    const { told, turns } = open(2)
    expect(['a', 'b', 'c', 'd', 'e'].map(key => turns.ask(key))).toEqual([true, true, false, false, false])
    expect([turns.ask('b'), turns.ask('d')]).toEqual([true, false])
    turns.leave('a')
    expect([told, turns.ask('c'), turns.ask('d')]).toEqual([['c'], true, false])
    turns.leave('b')
    turns.leave('c')
    expect(told).toEqual(['c', 'd', 'e'])
  })

  test('are left by whoever needs none any more, waiting or not', () => {
    const { told, turns } = open(1)
    for (const key of ['a', 'b', 'c']) turns.ask(key)
    turns.leave('b')
    turns.leave('nobody')
    expect(told).toEqual([])
    turns.leave('a')
    expect(told).toEqual(['c'])
  })

  test('end after a while, so that nobody holds the others up; who still needs one comes last', () => {
    const { told, turns } = open(1)
    for (const key of ['silent', 'b', 'c']) turns.ask(key)
    vi.advanceTimersByTime(turnMs)
    expect([told, turns.ask('silent')]).toEqual([['b'], false])
    turns.leave('b')
    turns.leave('c')
    expect(told).toEqual(['b', 'c', 'silent'])
  })

  test('are over when the operator stops', () => {
    const { told, turns } = open(1)
    for (const key of ['a', 'b']) turns.ask(key)
    turns.stop()
    turns.leave('a')
    vi.advanceTimersByTime(turnMs)
    expect([told, turns.ask('a'), vi.getTimerCount()]).toEqual([[], false, 0])
  })
})
