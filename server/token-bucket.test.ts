/** Token buckets give no more tokens than the burst and the rate allow, and no fewer. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { TokenBucket, TokenBuckets } from './token-bucket.ts'

describe('a bucket', () => {
  test('returns within any period no more than the burst and the rate allow', () => {
    const steps = fc.array(fc.record({ pauseMs: fc.nat(2000), asks: fc.nat(10) }), { maxLength: 30 })
    fc.assert(
      fc.property(
        steps,
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 10 }),
        (given, burst, perSecond) => {
          let now = 1_000_000
          const start = now
          const bucket = new TokenBucket(() => now, { perSecond, burst })
          let taken = 0
          for (const { pauseMs, asks } of given) {
            now += pauseMs
            for (let n = 0; n < asks; n++) if (bucket.take()) taken++
            expect(taken).toBeLessThanOrEqual(burst + ((now - start) / 1000) * perSecond + 1e-6)
          }
        },
      ),
    )
  })

  test('accepts a caller that waits as long as required', () => {
    const rates = fc.float({ min: Math.fround(0.1), max: 50, noNaN: true })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), rates, (burst, perSecond) => {
        let now = 0
        const bucket = new TokenBucket(() => now, { perSecond, burst })
        expect(bucket.waitMs()).toBe(0)
        for (let n = 0; n < burst; n++) expect(bucket.take()).toBe(true)
        expect(bucket.take()).toBe(false)
        now += Math.ceil(bucket.waitMs()) + 1
        expect(bucket.take()).toBe(true)
      }),
    )
  })

  test('returns its burst, then tokens at its rate', () => {
    let now = 0
    const bucket = new TokenBucket(() => now, { perSecond: 2, burst: 3 })
    const taken = () => Array.from({ length: 10 }, () => bucket.take()).filter(Boolean).length
    expect(taken()).toBe(3)
    now = 499
    expect(taken()).toBe(0)
    now = 1000
    expect(taken()).toBe(2)
    now = 60_000
    expect(taken()).toBe(3)
  })

  test('reserves tokens one after another', () => {
    let now = 0
    const bucket = new TokenBucket(() => now, { perSecond: 2, burst: 1 })
    expect([bucket.reserveMs(), bucket.reserveMs(), bucket.reserveMs()]).toEqual([0, 500, 1000])
    now = 1000
    expect(bucket.take()).toBe(false)
    now = 1500
    expect(bucket.take()).toBe(true)
  })

  test('neither gains nor loses tokens if the clock is set back', () => {
    let now = 1_000_000
    const bucket = new TokenBucket(() => now, { perSecond: 1, burst: 2 })
    expect(bucket.take()).toBe(true)
    now -= 500_000
    expect(bucket.take()).toBe(true)
    expect(bucket.take()).toBe(false)
    now += 1000
    expect(bucket.take()).toBe(true)
  })
})

describe('buckets by key', () => {
  const buckets = (keys: number) => new TokenBuckets(() => 0, { perSecond: 1, burst: 1 }, keys)

  test('are independent', () => {
    const some = buckets(10)
    expect([some.of('a').take(), some.of('a').take(), some.of('b').take()]).toEqual([true, false, true])
  })

  test('have a maximum number: the least recently used bucket is deleted', () => {
    const two = buckets(2)
    for (const key of ['a', 'b']) expect(two.of(key).take()).toBe(true)
    // A key that is still used is kept.
    expect(two.of('a').take()).toBe(false)
    expect(two.of('c').take()).toBe(true)
    expect(two.of('a').take()).toBe(false)
    expect(two.of('b').take()).toBe(true)
  })
})
