/** Token buckets against what they promise: no more than the burst and the rate, and never less. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createTokenBuckets } from './token-bucket.ts'

test('in any stretch of time no more is given than the burst and the rate allow', () => {
  const steps = fc.array(fc.record({ pauseMs: fc.nat(2000), asks: fc.nat(10) }), { maxLength: 30 })
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 10 }), (given, burst, perSecond) => {
      let now = 1_000_000
      const start = now
      const buckets = createTokenBuckets(perSecond, burst, () => now)
      let allowed = 0
      for (const { pauseMs, asks } of given) {
        now += pauseMs
        for (let n = 0; n < asks; n++) if (buckets.take('a').allowed) allowed++
        expect(allowed).toBeLessThanOrEqual(burst + ((now - start) / 1000) * perSecond + 1e-6)
      }
    }),
  )
})

test('who waits as long as told is let through', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.float({ min: Math.fround(0.1), max: 50, noNaN: true }),
      (burst, perSecond) => {
        let now = 0
        const buckets = createTokenBuckets(perSecond, burst, () => now)
        for (let n = 0; n < burst; n++) expect(buckets.take('a').allowed).toBe(true)
        const refused = buckets.take('a')
        if (refused.allowed) throw new Error('the burst was exceeded')
        now += Math.ceil(refused.retryAfterSeconds * 1000) + 1
        expect(buckets.take('a').allowed).toBe(true)
      },
    ),
  )
})

test('a clock that is set back neither gives nor takes', () => {
  let now = 1_000_000
  const buckets = createTokenBuckets(1, 2, () => now)
  expect(buckets.take('a').allowed).toBe(true)
  now -= 500_000
  expect(buckets.take('a').allowed).toBe(true)
  expect(buckets.take('a').allowed).toBe(false)
  now += 1000
  expect(buckets.take('a').allowed).toBe(true)
})

test('memory is bounded, however many keys come', () => {
  const buckets = createTokenBuckets(1, 1, () => 0)
  expect(buckets.take('first').allowed).toBe(true)
  expect(buckets.take('first').allowed).toBe(false)
  for (let n = 0; n < 10_000; n++) buckets.take(String(n))
  expect(buckets.take('first').allowed).toBe(true)
})
