/** How fast one tenant may ask; beyond it 429 with Retry-After. Each replica counts for itself. */
import type { App } from '../context.ts'
import { tooManyRequests } from '../errors.ts'
import type { TokenBuckets } from '../token-bucket.ts'

export function useRateLimit(app: App, requests: TokenBuckets): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const taken = requests.take(request.principal?.tenantId ?? '')
    done(taken.allowed ? undefined : tooManyRequests(taken.retryAfterSeconds))
  })
}
