import { expect, test, vi } from 'vitest'
import { StartupCheck } from './startup-check.ts'

test('a run succeeds once the server is ready, and otherwise returns the reason', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    let runs = 0
    let readyAt = 3
    const check = new StartupCheck(async () => {
      vi.advanceTimersByTime(300)
      return ++runs < readyAt ? 'not yet' : undefined
    })
    expect(await check.run()).toBeUndefined()
    expect([runs, check.isReady]).toEqual([3, true])
    expect(await check.run()).toBeUndefined()
    expect(runs).toBe(3)

    readyAt = Number.POSITIVE_INFINITY
    const late = new StartupCheck(async () => {
      vi.advanceTimersByTime(900)
      return 'not yet'
    })
    expect(await late.run()).toBe('not yet')
    expect(late.isReady).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})
