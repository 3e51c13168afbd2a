/**
 * Limits the request rate of one tenant. Above the limit, requests cause a 429 with Retry-After. Each replica counts
 * separately. A revoked member with a valid token does not use up the tenant's limit. Every response contains the
 * remaining requests, as in draft-ietf-httpapi-ratelimit-headers.
 */
import type { Rate, TokenBucket, TokenBuckets } from '../../server/token-bucket.ts'
import type { App } from '../context.ts'
import { tooManyRequests } from '../errors.ts'
import type { Tenants } from '../tenants.ts'
import type { Principal } from '../tokens/verify.ts'

/** The highest integer of a structured field (RFC 9651, section 3.3.1). */
const highest = 999_999_999_999_999

const secondsOf = (ms: number): number => Math.min(highest, Math.ceil(ms / 1000))

/** `q` requests at once, and as many again in `w` seconds. */
export const policyOf = (name: string, { perSecond, burst }: Rate): string =>
  `"${name}";q=${burst};w=${Math.max(1, secondsOf((burst * 1000) / perSecond))}`

/**
 * `r` requests remain, and the full limit is available again after `t` seconds. For a refused client, `t` is the end of
 * its wait, as in Retry-After. Retry-After must not be earlier than `t` (section 6.4 of the draft).
 */
export function remainingOf(name: string, bucket: TokenBucket, isTaken: boolean): string {
  const { tokens, fullInMs } = bucket.remaining
  const seconds = isTaken ? secondsOf(fullInMs) : Math.max(1, secondsOf(bucket.waitMs()))
  return `"${name}";r=${tokens};t=${seconds}`
}

/** A limit with the name that clients see, and the rate of each of its buckets. */
export type Limit = { name: string; rate: Rate; buckets: TokenBuckets }

export function useRateLimit(app: App, { name, rate, buckets }: Limit, tenants: Tenants): void {
  const policy = policyOf(name, rate)
  const keyOf = (principal: Principal): string =>
    tenants.isRevoked(principal) ? JSON.stringify([principal.tenantId, principal.subject]) : principal.tenantId

  app.addHook('onRequest', (request, reply, done) => {
    const bucket = buckets.of(request.principal === undefined ? '' : keyOf(request.principal))
    const isTaken = bucket.take()
    reply.header('ratelimit-policy', policy).header('ratelimit', remainingOf(name, bucket, isTaken))
    done(isTaken ? undefined : tooManyRequests(bucket.waitMs() / 1000))
  })
}
