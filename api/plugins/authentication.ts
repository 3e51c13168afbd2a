/**
 * Authentication. Every request of the scope needs a bearer token. Failures from one address are limited; above the
 * limit, they cause a 429. The API never refuses a valid token because of other clients' failures at the same address.
 */
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { ApiError, tooManyRequests, unauthorized } from '../errors.ts'
import { bearerToken } from '../headers.ts'
import type { Principal, VerifyToken } from '../tokens/verify.ts'
import { type Limit, policyOf, remainingOf } from './rate-limit.ts'

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | undefined
  }
}

export function useAuthentication(app: App, verify: VerifyToken, failures: Limit, now: () => number): void {
  const policy = policyOf(failures.name, failures.rate)
  /** The last token of each connection, because a client sends the same token with every request. */
  const lastOf = new WeakMap<Socket, { header: string; principal: Principal }>()

  app.addHook('onRequest', (request, reply, done) => {
    const header = request.headers.authorization
    const last = lastOf.get(request.socket)
    if (last !== undefined && last.header === header && last.principal.goodUntil > now()) {
      request.principal = last.principal
      return done()
    }
    const admit = (principal: Principal) => {
      request.principal = principal
      if (header !== undefined) lastOf.set(request.socket, { header, principal })
      done()
    }
    try {
      const token = bearerToken(header)
      if (token === undefined) throw missing(request)
      const verified = verify(token)
      if (!(verified instanceof Promise)) return admit(verified)
      verified.then(admit, error => done(limited(request, reply, error)))
    } catch (error) {
      done(limited(request, reply, error))
    }
  })

  function limited(request: FastifyRequest, reply: FastifyReply, error: unknown): Error {
    if (error instanceof ApiError && error.status === 401) {
      const bucket = failures.buckets.of(request.ip)
      const isTaken = bucket.take()
      reply.header('ratelimit-policy', policy).header('ratelimit', remainingOf(failures.name, bucket, isTaken))
      if (!isTaken) return tooManyRequests(bucket.waitMs() / 1000)
    }
    return error instanceof Error ? error : new Error('verification failed', { cause: error })
  }
}

const missing = (request: FastifyRequest): ApiError =>
  request.headers.authorization === undefined
    ? unauthorized('a bearer token is required')
    : unauthorized('Authorization must be Bearer followed by a token', 'invalid_token')
