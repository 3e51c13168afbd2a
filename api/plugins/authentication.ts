/**
 * Who is asking. Every request of the scope needs a bearer token; failures of one address are limited, and beyond the
 * limit they are answered with 429. A good token is never refused for the failures of others behind the same address.
 */
import type { FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { ApiError, tooManyRequests, unauthorized } from '../errors.ts'
import { bearerToken } from '../headers.ts'
import type { TokenBuckets } from '../token-bucket.ts'
import type { Principal, VerifyToken } from '../tokens/verify.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
  }
}

export function useAuthentication(app: App, verify: VerifyToken, failures: TokenBuckets): void {
  app.addHook('onRequest', (request, _reply, done) => {
    try {
      const token = bearerToken(request.headers.authorization)
      if (token === undefined) throw missing(request)
      const verified = verify(token)
      if (!(verified instanceof Promise)) return admit(request, verified, done)
      verified.then(
        principal => admit(request, principal, done),
        error => done(limited(request, error)),
      )
    } catch (error) {
      done(limited(request, error))
    }
  })

  function limited(request: FastifyRequest, error: unknown): Error {
    if (error instanceof ApiError && error.status === 401) {
      const taken = failures.take(request.ip)
      if (!taken.allowed) return tooManyRequests(taken.retryAfterSeconds)
    }
    return error instanceof Error ? error : new Error('verification failed', { cause: error })
  }
}

function admit(request: FastifyRequest, principal: Principal, done: () => void): void {
  request.principal = principal
  done()
}

const missing = (request: FastifyRequest): ApiError =>
  request.headers.authorization === undefined
    ? unauthorized('a bearer token is required')
    : unauthorized('Authorization must be Bearer and a token', 'invalid_token')
