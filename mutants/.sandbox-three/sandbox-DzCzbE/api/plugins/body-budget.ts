/**
 * How much of request bodies one tenant may have on its way at once; beyond it 429 with Retry-After. A body is kept until
 * it is whole, a minute at most: without this, a tenant's many large and slow ones would fill the memory of all.
 */
// @ts-nocheck

import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { tooManyRequests } from '../errors.ts'
import { bodyLimit } from './body.ts'

/** Of one tenant: eight bodies of the greatest length, or any number of usual ones. */
const highestBytes = 8 * bodyLimit
const retryAfterSeconds = 1
const writes = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])

/** Bytes that a body may take by what its headers say; one that is longer, or says nothing, is refused at the limit. */
function announcedBytes(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined) return bodyLimit
  return Math.min(Number(headers['content-length'] ?? 0), bodyLimit)
}

export function useBodyBudget(app: App): void {
  const held = new Map<string, number>()
  const releases = new WeakMap<FastifyRequest, () => void>()

  /** Takes so much for a tenant; gives what gives it back, once. Undefined: there is not so much left. */
  function take(tenant: string, bytes: number): (() => void) | undefined {
    const before = held.get(tenant) ?? 0
    if (before + bytes > highestBytes) return undefined
    held.set(tenant, before + bytes)
    let taken = true
    return () => {
      if (!taken) return
      taken = false
      const left = (held.get(tenant) ?? bytes) - bytes
      if (left > 0) held.set(tenant, left)
      else held.delete(tenant)
    }
  }

  // On the routes that take a body only: the others need not pass by.
  app.addHook('onRoute', route => {
    if (![route.method].flat().some(method => writes.has(method))) return
    route.preParsing = (request, reply, payload, done) => {
      const bytes = announcedBytes(request.headers)
      if (bytes === 0) return done(null, payload)
      const release = take(request.principal?.tenantId ?? '', bytes)
      if (release === undefined) return done(tooManyRequests(retryAfterSeconds))
      releases.set(request, release)
      // Also where the client goes away, or the body is refused.
      reply.raw.once('close', release)
      done(null, payload)
    }
    route.preValidation = (request, _reply, done) => {
      releases.get(request)?.()
      done()
    }
  })
}
