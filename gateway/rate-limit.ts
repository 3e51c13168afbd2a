/** Token buckets by key, so that one noisy client costs no more than its share. Bounded in number. */

export type RateLimit = {
  /** Tokens that come back per second. */
  perSecond: number
  /** Tokens that a key begins with, and holds at most. */
  burst: number
}

type Bucket = { tokens: number; at: number }

/**
 * Takes one token of a key's bucket; false where there is none. Of more than `keys` keys the longest known is
 * forgotten, so a limit over all keys belongs beside this one where keys can be made up.
 */
export function createRateLimiter(limit: RateLimit, keys: number, now: () => number): (key: string) => boolean {
  const buckets = new Map<string, Bucket>()
  const fresh = (key: string): Bucket => {
    const oldest = buckets.size >= keys ? buckets.keys().next() : undefined
    if (oldest !== undefined && !oldest.done) buckets.delete(oldest.value)
    const bucket = { tokens: limit.burst, at: now() }
    buckets.set(key, bucket)
    return bucket
  }
  return key => {
    const bucket = buckets.get(key) ?? fresh(key)
    const elapsed = Math.max(0, now() - bucket.at)
    bucket.tokens = Math.min(limit.burst, bucket.tokens + (elapsed / 1000) * limit.perSecond)
    bucket.at = now()
    if (bucket.tokens < 1) return false
    bucket.tokens -= 1
    return true
  }
}
