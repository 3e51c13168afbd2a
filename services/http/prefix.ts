/**
 * A proxy that strips a path prefix sends the prefix in X-Forwarded-Prefix. This module adds the prefix to paths in
 * the response headers Location and Content-Location.
 */
import type { HttpResponse, RequestHead } from './message.ts'

const prefixForm = /^(?:\/[A-Za-z0-9._~-]{1,100}){1,5}$/
const located = new Set(['location', 'content-location'])

/**
 * Adds the prefix to the paths in Location and Content-Location. Any client may send the header, because it changes
 * only this client's response.
 */
export function withForwardedPrefix(response: HttpResponse, { headers }: Pick<RequestHead, 'headers'>): HttpResponse {
  const prefix = headers['x-forwarded-prefix']
  if (prefix === undefined || !prefixForm.test(prefix)) return response
  const isPath = (name: string, value: string) => located.has(name.toLowerCase()) && value.startsWith('/')
  return {
    ...response,
    headers: response.headers.map(
      ([name, value]) => [name, isPath(name, value) ? `${prefix}${value}` : value] as const,
    ),
  }
}
