/** A path that exists, asked with a method that does not: 405 with Allow, rather than 404. */
// @ts-nocheck

import type { HTTPMethods } from 'fastify'
import type { App } from '../context.ts'
import { ApiError } from '../errors.ts'

const allMethods: HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']

/** Watches routes being added; the function it returns adds the refusals to all seen so far. */
export function watchMethods(app: App): () => void {
  const seen = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ url, method }) => {
    const methods = seen.get(url) ?? new Set()
    for (const name of [method].flat()) methods.add(name)
    seen.set(url, methods)
  })
  return () => {
    for (const [url, methods] of [...seen]) {
      const allow = [...methods].join(', ')
      // On request, so that no body is read first.
      const onRequest = async () => {
        throw new ApiError(405, `the path takes ${allow} only`, { headers: { Allow: allow } })
      }
      const method = allMethods.filter(name => !methods.has(name))
      app.route({ method, url, exposeHeadRoute: false, schema: { hide: true }, onRequest, handler: onRequest })
    }
  }
}
