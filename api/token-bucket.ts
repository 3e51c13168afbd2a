/**
 * Token buckets, one per key: each fills at a steady rate up to its burst, a request takes one. At most so many keys are
 * kept; one that was dropped starts full again.
 */
import { BoundedMap } from './bounded-map.ts'

const highestKeys = 10_000

export type TokenBuckets = {
  /** Takes one; else the seconds after which there is one again. */
  take: (key: string) => { allowed: true } | { allowed: false; retryAfterSeconds: number }
}

export function createTokenBuckets(perSecond: number, burst: number, now: () => number): TokenBuckets {
  const buckets = new BoundedMap<string, { level: number; at: number }>(highestKeys)
  return {
    take(key) {
      const at = now()
      const bucket = buckets.get(key)
      if (bucket === undefined) {
        buckets.set(key, { level: burst - 1, at })
        return { allowed: true }
      }
      // A clock that was set back gives nothing and takes nothing.
      bucket.level = Math.min(burst, bucket.level + (Math.max(0, at - bucket.at) / 1000) * perSecond)
      bucket.at = at
      if (bucket.level < 1) return { allowed: false, retryAfterSeconds: (1 - bucket.level) / perSecond }
      bucket.level -= 1
      return { allowed: true }
    },
  }
}
