/**
 * Checks redirect addresses. They must be exactly as registered, but a native client on loopback may use any port (RFC
 * 8252 section 7.3).
 */
import { isLoopbackName } from '../../mcp-protocol/origin.ts'

export const isLoopback = (uri: string): boolean => {
  const url = new URL(uri)
  return url.protocol === 'http:' && isLoopbackName(url.hostname)
}

/**
 * Schemes that a browser or the operating system handles itself. Any other scheme may belong to an app on the user's
 * computer (RFC 8252 section 7.1).
 */
const foreignSchemes =
  /^(https?|wss?|ftps?|sftp|file|filesystem|data|blob|about|javascript|vbscript|view-source|chrome|resource|mailto|tel|sms|ssh|smb|intent|ms-[\w.+-]*|search-ms|jar):$/

export const isPrivateUse = (uri: string): boolean => !foreignSchemes.test(new URL(uri).protocol)

/** Whether a client may register the URI. */
export function isRedirectUri(uri: string): boolean {
  if (!URL.canParse(uri) || uri.includes('#') || /[\s\\]/.test(uri)) return false
  const url = new URL(uri)
  if (url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || isLoopback(uri) || isPrivateUse(uri)
}

/** Allows all redirects to loopback, with any path. */
export const anyLoopback = 'loopback'

/** Redirect addresses of common clients. */
export const usualRedirectUris: readonly string[] = [
  'https://claude.ai/api/mcp/auth_callback',
  'https://claude.com/api/mcp/auth_callback',
  'cursor://anysphere.cursor-mcp/oauth/callback',
  'https://www.cursor.com/agents/mcp/oauth/callback',
  'https://vscode.dev/redirect',
  'https://insiders.vscode.dev/redirect',
  anyLoopback,
]

/**
 * Whether a client that is not in the configuration may use this URI. `ownOrigin`: the origin of the client's metadata
 * document.
 */
export function isAllowedRedirect(uri: string, allowed: readonly string[], ownOrigin?: string): boolean {
  if (!isRedirectUri(uri)) return false
  if (isLoopback(uri) && allowed.includes(anyLoopback)) return true
  const { protocol, origin } = new URL(uri)
  return (protocol === 'https:' && origin === ownOrigin) || matchesRedirectUri(uri, allowed)
}

/** Compares texts, because another spelling counts as another address. */
const withoutPort = (uri: string) =>
  uri.replace(/^(http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])):\d{1,5}(?=[/?]|$)/, '$1')

export function matchesRedirectUri(uri: string, registered: readonly string[]): boolean {
  if (registered.includes(uri)) return true
  if (!isRedirectUri(uri) || !isLoopback(uri)) return false
  return registered.some(
    one => one !== anyLoopback && isRedirectUri(one) && isLoopback(one) && withoutPort(one) === withoutPort(uri),
  )
}
