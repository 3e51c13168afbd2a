/** Parses request headers. */
import { isIP } from 'node:net'
import { badRequest } from './errors.ts'

type HeaderValue = string | string[] | undefined

const joined = (value: HeaderValue): string => (Array.isArray(value) ? value.join(',') : (value ?? ''))

const sanePattern = /^[A-Za-z0-9][A-Za-z0-9._:+/=-]{0,127}$/

/** Returns the client's X-Request-Id if it is safe in logs and headers, otherwise undefined. */
export function saneRequestId(value: HeaderValue): string | undefined {
  return typeof value === 'string' && sanePattern.test(value) ? value : undefined
}

/** The maximum wait of one long poll. */
const longestWaitSeconds = 60

/**
 * Returns the seconds of `Prefer: wait=N` (RFC 7240, section 4.3), at most 60. Ignores an unreadable preference, as the
 * RFC requires (section 2).
 */
export function preferredWait(value: HeaderValue): number | undefined {
  const match = /(?:^|[,;])\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:$|[,;])/i.exec(joined(value))
  return match?.[1] === undefined ? undefined : Math.min(Number(match[1]), longestWaitSeconds)
}

/** Returns the charsets that a Content-Type names, in lower case: none, one, or several in a misleading header. */
export const charsetsOf = (contentType = ''): string[] =>
  [...contentType.matchAll(/;\s*charset\*?\s*=\s*(?:"([^"]*)"|([^\s;"]*))/gi)].map(([, quoted, plain]) =>
    (quoted ?? plain ?? '').toLowerCase(),
  )

export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/

/** @throws ApiError 400 */
export function idempotencyKey(value: HeaderValue): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !idempotencyKeyPattern.test(value)) {
    throw badRequest('Idempotency-Key: must be 1 to 255 visible ASCII characters')
  }
  return value
}

/** Returns the token of `Authorization: Bearer <token>` (RFC 6750, section 2.1); undefined if absent. */
export function bearerToken(value: string | undefined): string | undefined {
  return value === undefined ? undefined : /^Bearer +([A-Za-z0-9._~+/=-]+) *$/i.exec(value)?.[1]
}

/** Converts an IPv4 address that is mapped into IPv6, as a dual-stack socket reports it, to plain IPv4. */
const plainAddress = (address: string): string => address.replace(/^::ffff:(?=[0-9.]+$)/i, '')

/**
 * Returns the address that a request claims: the leftmost address of X-Forwarded-For, otherwise the socket's address. A
 * caller can set it to any value, so no decision may use it.
 */
export function unverifiedAddress(forwardedFor: HeaderValue, socketAddress: string): string {
  const leftmost = joined(forwardedFor).split(',', 1)[0]?.trim() ?? ''
  const withoutPort = leftmost.replace(/^([0-9.]+):[0-9]+$/, '$1').replace(/^\[(.*)\](?::[0-9]+)?$/, '$1')
  return plainAddress(isIP(withoutPort) ? withoutPort : socketAddress)
}
