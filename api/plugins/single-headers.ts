/**
 * Headers of which a request has one. HTTP/1.1 asks for a host (RFC 9112, section 3.2), and Node refuses a request without one and not a word of why. Of
 * two it takes the first, while whoever stands before us may have gone by the second: so nobody comes in by two credentials, and no body
 * is of two types.
 */

import type { App } from '../context.ts'
import { type ApiError, badRequest } from '../errors.ts'

const single: readonly string[] = ['Host', 'Authorization', 'Content-Type']
const longestName = Math.max(...single.map(name => name.length))

/** `rawHeaders`: names and values in turn. */
function twice(rawHeaders: readonly string[]): string | undefined {
  const seen = new Set<string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (name.length > longestName) continue
    const found = single.find(one => one.length === name.length && one.toLowerCase() === name.toLowerCase())
    if (found !== undefined && seen.has(found)) return found
    if (found !== undefined) seen.add(found)
  }
  return undefined
}

function refusal(httpVersion: string, host: string | undefined, rawHeaders: readonly string[]): ApiError | undefined {
  if (httpVersion === '1.1' && host === undefined) return badRequest('Host: is required')
  const name = twice(rawHeaders)
  return name === undefined ? undefined : badRequest(`${name}: must be given once only`)
}

export function useSingleHeaders(app: App): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    done(refusal(raw.httpVersion, raw.headers.host, raw.rawHeaders))
  })
}
