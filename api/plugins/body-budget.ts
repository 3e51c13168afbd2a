/**
 * Limits the request bodies that one tenant sends at once; above the limit 429 with Retry-After. A body is buffered
 * until it is complete, for a minute at most: otherwise a tenant with many large and slow bodies could fill the shared
 * memory.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { onceClosed } from '../disconnect.ts'
import { tooManyRequests } from '../errors.ts'
import { bodyLimit } from './body.ts'

/** For one tenant: eight bodies of the maximum length, or any number of usual ones. */
const highestBytes = 8 * bodyLimit
const retryAfterSeconds = 1
const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/**
 * Bytes that a body may take according to its headers; a longer body, or one without a length, is refused at the limit.
 */
function announcedBytes(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined) return bodyLimit
  return Math.min(Number(headers['content-length'] ?? 0), bodyLimit)
}

export function useBodyBudget(app: App): void {
  const reserved = new Map<string, number>()
  const releases = new WeakMap<FastifyRequest, () => void>()

  /** Reserves bytes for a tenant; returns a function that releases them, once. Undefined: too few are free. */
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

  // Only on routes with a body, to spare the others the cost.
  app.addHook('onRoute', route => {
    if (![route.method].flat().some(method => writes.has(method))) return
    route.preParsing = (request, reply, payload, done) => {
      const bytes = announcedBytes(request.headers)
      if (bytes === 0) return done(null, payload)
      const release = take(request.principal?.tenantId ?? '', bytes)
      if (release === undefined) return done(tooManyRequests(retryAfterSeconds))
      releases.set(request, release)
      // Also if the client disconnects, or did while its token was verified, or the body is refused.
      onceClosed(reply, release)
      done(null, payload)
    }
    route.preValidation = (request, _reply, done) => {
      releases.get(request)?.()
      done()
    }
  })
}
