import { expect, test } from 'vitest'
import { nextBackoff, startupBackoff } from './backoff.ts'

test('a service retries often while Postgres may be starting, and less and less often afterwards', () => {
  const after = (seconds: number, lastMs: number) => startupBackoff(seconds * 1_000, lastMs)
  expect([after(0, 0), after(29, 250), after(30, 250), after(119, 1_000)]).toEqual([250, 250, 1_000, 1_000])
  expect([after(120, 1_000), after(180, 2_000), after(600, 32_000)]).toEqual([2_000, 4_000, 32_000])
  expect([nextBackoff(0), nextBackoff(250)]).toEqual([1_000, 1_000])
})
