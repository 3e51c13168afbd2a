/** Selects the headers that are forwarded to either side. Pure. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'

/** Hop-by-hop headers (RFC 9110 section 7.6.1). Each side decides separately about framing. */
const hopByHop = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'transfer-encoding', 'upgrade', 'http2-settings'],
])
/** Headers that only the gateway sets or interprets. */
const replacedHeaders = new Set(['host', 'forwarded', 'x-real-ip', 'expect', 'content-length'])

const namedBy = (connection: string | undefined): ReadonlySet<string> =>
  new Set((connection ?? '').split(',').map(name => name.trim().toLowerCase()))

function* passing(headers: IncomingHttpHeaders): Generator<[string, string | string[]]> {
  const named = namedBy(headers.connection)
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || name.startsWith(':') || hopByHop.has(name) || named.has(name)) continue
    yield [name, value]
  }
}

type Forwarded = { host: string; address: string; prefix: string }

/**
 * The headers of a request to a service, except the headers of its body. `withToken`: whether the service gets the
 * Authorization header.
 */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  { host, address, prefix }: Forwarded,
  withToken: boolean,
): OutgoingHttpHeaders {
  const passed = [...passing(headers)].filter(
    ([name]) =>
      !replacedHeaders.has(name) && !name.startsWith('x-forwarded-') && (withToken || name !== 'authorization'),
  )
  return {
    ...Object.fromEntries(passed),
    host,
    'x-forwarded-for': address,
    'x-forwarded-host': host,
    'x-forwarded-proto': 'https',
    ...(prefix === '' ? {} : { 'x-forwarded-prefix': prefix }),
  }
}

/** The headers of a response to the client. */
export const responseHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders =>
  Object.fromEntries(passing(headers))

/** The length of a request's body: a number of bytes, unknown, or no body. Undefined if it is ambiguous. */
export type BodyLength = number | 'unknown' | 'none'

/** Refuses lengths that two servers could read differently (RFC 9112 section 6.1). `version`: for example `1.1`. */
export function bodyLength(headers: IncomingHttpHeaders, version: string): BodyLength | undefined {
  const { 'content-length': length, 'transfer-encoding': coding } = headers
  if (coding !== undefined) {
    if (version !== '1.1' || length !== undefined || coding.toLowerCase() !== 'chunked') return undefined
    return 'unknown'
  }
  if (length === undefined) return 'none'
  return /^[0-9]{1,15}$/.test(length) ? Number(length) : undefined
}

/** The headers of a preflight (WHATWG Fetch, section 3.2.2). */
const preflightHeaders = ['origin', 'access-control-request-method'] as const

/**
 * Whether a request is a preflight. A request with a body is not, whatever its headers. A request whose preflight
 * headers would not be forwarded is not, either.
 */
export function isPreflight(method: string | undefined, headers: IncomingHttpHeaders, hasBody: boolean): boolean {
  if (method !== 'OPTIONS' || hasBody) return false
  const named = namedBy(headers.connection)
  return preflightHeaders.every(name => headers[name] !== undefined && !named.has(name))
}
