/**
 * Limits the request bodies that one tenant sends concurrently. Above the limit, requests cause a 429 with Retry-After.
 * A body is buffered until it is complete, for at most a minute. Without the limit, a tenant with many large and slow
 * bodies could fill the shared memory.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { onceClosed } from '../disconnect.ts'
import { tooManyRequests } from '../errors.ts'
import { bodyLimit } from './body.ts'

/** The limit for one tenant: eight bodies of the maximum length, or more smaller bodies. */
const highestBytes = 8 * bodyLimit
const retryAfterSeconds = 1
const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/**
 * The bytes that a body may take according to its headers. A longer body, or a body without a length, is refused at the
 * limit.
 */
function announcedBytes(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined) return bodyLimit
  return Math.min(Number(headers['content-length'] ?? 0), bodyLimit)
}

export function useBodyBudget(app: App): void {
  const reserved = new Map<string, number>()
  const releases = new WeakMap<FastifyRequest, () => void>()

  /**
   * Reserves bytes for a tenant, and returns a function that releases them once. Returns undefined if too few bytes are
   * free.
   */
  function take(tenant: string, bytes: number): (() => void) | undefined {
    const before = reserved.get(tenant) ?? 0
    if (before + bytes > highestBytes) return undefined
    reserved.set(tenant, before + bytes)
    let taken = true
    return () => {
      if (!taken) return
      taken = false
      const remaining = (reserved.get(tenant) ?? bytes) - bytes
      if (remaining > 0) reserved.set(tenant, remaining)
      else reserved.delete(tenant)
    }
  }

  // Only on routes with a body, so that other routes do not pay the cost.
  app.addHook('onRoute', route => {
    if (![route.method].flat().some(method => writes.has(method))) return
    route.preParsing = (request, reply, payload, done) => {
      const bytes = announcedBytes(request.headers)
      if (bytes === 0) return done(null, payload)
      const release = take(request.principal?.tenantId ?? '', bytes)
      if (release === undefined) return done(tooManyRequests(retryAfterSeconds))
      releases.set(request, release)
      // Releases the bytes also if the client disconnects, has disconnected while its token was verified, or sends a
      // refused body.
      onceClosed(reply, release)
      done(null, payload)
    }
    route.preValidation = (request, _reply, done) => {
      releases.get(request)?.()
      done()
    }
  })
}
