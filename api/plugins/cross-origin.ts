/**
 * CORS (https://fetch.spec.whatwg.org/#http-cors-protocol): the origins whose pages may send requests from a browser.
 * By default, there are none. Configured origins are matched exactly. Browser credentials are never used, because a
 * page sends its token itself.
 */
import type { FastifyRequest } from 'fastify'
import type { ApiConfiguration } from '../configuration.ts'
import type { App } from '../context.ts'
import { responseHeaders } from '../operation.ts'

const methods = 'GET, HEAD, POST, PATCH, DELETE'
const requestHeaders = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Prefer',
  'X-Request-Id',
].join(', ')
const exposed = Object.keys(responseHeaders).join(', ')

const isPreflight = ({ method, headers }: FastifyRequest): boolean =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

export function useCrossOrigin(app: App, { origins, maxAgeSeconds }: ApiConfiguration['cors']): void {
  if (origins.length === 0) return
  const allowed = new Set(origins)
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers
    // Set also for another origin, because a cache must not return one origin's response to another origin.
    reply.header('vary', 'Origin')
    if (origin === undefined || !allowed.has(origin)) return done()
    reply.header('access-control-allow-origin', origin)
    if (!isPreflight(request)) {
      reply.header('access-control-expose-headers', exposed)
      return done()
    }
    // A browser sends the preflight before it can send a token.
    const headers = {
      'access-control-allow-methods': methods,
      'access-control-allow-headers': requestHeaders,
      'access-control-max-age': String(maxAgeSeconds),
    }
    reply.code(204).headers(headers).send()
  })
}
