import { expect, test } from 'vitest'
import { defaultBackoff, nextWait } from './backoff.ts'

test('the first restart is immediate, then the delay doubles from ten seconds to five minutes; a long run resets it', () => {
  let state = { waits: 0 }
  const waits = [0, 0, 0, 0, 0, 0, 0, 0, 599_999, 600_000, 0].map(ranMs => {
    const next = nextWait(state, ranMs, defaultBackoff)
    state = next.state
    return next.waitMs / 1000
  })
  expect(waits).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300, 0, 10])
})

test('thousands of failures have the same delay as a dozen', () => {
  const limits = { ...defaultBackoff, initialMs: 0 }
  expect(nextWait({ waits: 5000 }, 0, limits).waitMs).toBe(0)
  expect(nextWait({ waits: 5000 }, 0, defaultBackoff).waitMs).toBe(300_000)
})
