/**
 * Headers that must occur once. HTTP/1.1 requires a Host (RFC 9112, section 3.2), but Node refuses a request without a
 * Host and gives no reason. If a header occurs twice, Node uses the first, but a proxy may have used the second. So the
 * API refuses two credentials and two content types.
 */

import type { App } from '../context.ts'
import { type ApiError, badRequest } from '../errors.ts'

const single: readonly string[] = ['Host', 'Authorization', 'Content-Type']
const longestName = Math.max(...single.map(name => name.length))

/** `rawHeaders`: names and values alternate. */
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
  return name === undefined ? undefined : badRequest(`${name}: must occur only once`)
}

export function useSingleHeaders(app: App): void {
  app.addHook('onRequest', ({ raw }, _reply, done) => {
    done(refusal(raw.httpVersion, raw.headers.host, raw.rawHeaders))
  })
}
