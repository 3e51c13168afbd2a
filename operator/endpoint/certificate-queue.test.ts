import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createCertificateQueue, slotMs } from './certificate-queue.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const open = (atOnce: number) => {
  const notified: string[] = []
  return { notified, queue: createCertificateQueue({ atOnce, onSlot: key => notified.push(key) }) }
}

describe('slots for issuing a certificate', () => {
  test('are given at once up to the limit, then in order', () => {
    const { notified, queue } = open(2)
    expect(['a', 'b', 'c', 'd', 'e'].map(key => queue.request(key))).toEqual([true, true, false, false, false])
    expect([queue.request('b'), queue.request('d')]).toEqual([true, false])
    queue.release('a')
    expect([notified, queue.request('c'), queue.request('d')]).toEqual([['c'], true, false])
    queue.release('b')
    queue.release('c')
    expect(notified).toEqual(['c', 'd', 'e'])
  })

  test('are released by an owner that needs none, even if it only waits', () => {
    const { notified, queue } = open(1)
    for (const key of ['a', 'b', 'c']) queue.request(key)
    queue.release('b')
    queue.release('nobody')
    expect(notified).toEqual([])
    queue.release('a')
    expect(notified).toEqual(['c'])
  })

  test('end after a timeout; an owner that still needs a slot is queued last', () => {
    const { notified, queue } = open(1)
    for (const key of ['silent', 'b', 'c']) queue.request(key)
    vi.advanceTimersByTime(slotMs)
    expect([notified, queue.request('silent')]).toEqual([['b'], false])
    queue.release('b')
    queue.release('c')
    expect(notified).toEqual(['b', 'c', 'silent'])
  })

  test('end when the operator stops', () => {
    const { notified, queue } = open(1)
    for (const key of ['a', 'b']) queue.request(key)
    queue.stop()
    queue.release('a')
    vi.advanceTimersByTime(slotMs)
    expect([notified, queue.request('a'), vi.getTimerCount()]).toEqual([[], false, 0])
  })
})
