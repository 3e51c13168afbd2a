/**
 * Request bodies: JSON in UTF-8, at most 1 MiB, nothing else. An empty body counts as none, since clients send
 * `Content-Type` on a DELETE too.
 */
// @ts-nocheck

import { isUtf8 } from 'node:buffer'
import type { App } from '../context.ts'
import { hasDoubtfulKey } from '../doubtful-keys.ts'
import { badRequest } from '../errors.ts'

export const bodyLimit = 1024 * 1024

export function useJsonBodies(app: App): void {
  // Refuses `__proto__` and `constructor.prototype`, which no field of ours is called.
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer', bodyLimit }, (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    if (!isUtf8(body)) return done(badRequest('body: must be UTF-8'), undefined)
    const text = body.toString('utf8')
    if (hasDoubtfulKey(text)) return done(badRequest('body: unknown field with a backslash in its name'), undefined)
    parse(request, text, (error, value) =>
      error === null || error === undefined
        ? done(null, value)
        : done(badRequest('body: must be valid JSON'), undefined),
    )
  })
}
