/**
 * How fast one tenant may ask; beyond it 429 with Retry-After. Each replica counts for itself. A member whose membership was
 * revoked, but whose token still counts, takes nothing of what the tenant may.
 */
// @ts-nocheck

import type { TokenBuckets } from '../../server/token-bucket.ts'
import type { App } from '../context.ts'
import { tooManyRequests } from '../errors.ts'
import type { Tenants } from '../tenants.ts'
import type { Principal } from '../tokens/verify.ts'

export function useRateLimit(app: App, requests: TokenBuckets, tenants: Tenants): void {
  const keyOf = (principal: Principal): string =>
    tenants.isRevoked(principal) ? JSON.stringify([principal.tenantId, principal.subject]) : principal.tenantId

  app.addHook('onRequest', (request, _reply, done) => {
    const bucket = requests.of(request.principal === undefined ? '' : keyOf(request.principal))
    done(bucket.take() ? undefined : tooManyRequests(bucket.waitMs() / 1000))
  })
}
