/** Where a client may be sent back to: what it has registered, to the letter; of a native client on loopback the port may be any (RFC 8252 section 7.3). */
import { isLoopbackName } from '../../wire/access.ts'

export const isLoopback = (uri: string): boolean => {
  const url = new URL(uri)
  return url.protocol === 'http:' && isLoopbackName(url.hostname)
}

/** Such as may be registered at all. */
export function isRedirectUri(uri: string): boolean {
  if (!URL.canParse(uri) || uri.includes('#') || /[\s\\]/.test(uri)) return false
  const url = new URL(uri)
  if (url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || isLoopback(uri)
}

/** Of the text as it is: written in another way it is another address. */
const withoutPort = (uri: string) =>
  uri.replace(/^(http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])):\d{1,5}(?=[/?]|$)/, '$1')

export function matchesRedirectUri(uri: string, registered: readonly string[]): boolean {
  if (registered.includes(uri)) return true
  if (!isRedirectUri(uri) || !isLoopback(uri)) return false
  return registered.some(one => isRedirectUri(one) && isLoopback(one) && withoutPort(one) === withoutPort(uri))
}
