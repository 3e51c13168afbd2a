/** How fast one tenant may ask; beyond it 429 with Retry-After. Each replica counts for itself. */
import type { TokenBuckets } from '../../server/token-bucket.ts'
import type { App } from '../context.ts'
import { tooManyRequests } from '../errors.ts'

export function useRateLimit(app: App, requests: TokenBuckets): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const bucket = requests.of(request.principal?.tenantId ?? '')
    done(bucket.take() ? undefined : tooManyRequests(bucket.waitMs() / 1000))
  })
}
