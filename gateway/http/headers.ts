/** The headers that pass from one side to the other. Pure. */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'

/** RFC 9110 section 7.6.1: of one connection only. Framing is decided anew on each side. */
const hopByHop = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'transfer-encoding', 'upgrade', 'http2-settings'],
])
/** What only the gateway says, or decides itself. */
const ours = new Set(['host', 'forwarded', 'x-real-ip', 'expect', 'content-length'])

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

/** The headers of a request to a service, but for those of its body. `withToken`: whether Authorization is for the service. */
export function requestHeaders(
  headers: IncomingHttpHeaders,
  { host, address, prefix }: Forwarded,
  withToken: boolean,
): OutgoingHttpHeaders {
  const passed = [...passing(headers)].filter(
    ([name]) => !ours.has(name) && !name.startsWith('x-forwarded-') && (withToken || name !== 'authorization'),
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

/** The headers of an answer to the client. */
export const responseHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders =>
  Object.fromEntries(passing(headers))

/** How long a request's body is: a number of bytes, unknown, or that there is none; undefined where it is ambiguous. */
export type BodyLength = number | 'unknown' | 'none'

/** RFC 9112 section 6.1: what two servers could read differently is refused. `version`: as `1.1`. */
export function bodyLength(headers: IncomingHttpHeaders, version: string): BodyLength | undefined {
  const { 'content-length': length, 'transfer-encoding': coding } = headers
  if (coding !== undefined) {
    if (version !== '1.1' || length !== undefined || coding.toLowerCase() !== 'chunked') return undefined
    return 'unknown'
  }
  if (length === undefined) return 'none'
  return /^[0-9]{1,15}$/.test(length) ? Number(length) : undefined
}

/** A request with a body is none, whatever its headers say. */
export const isPreflight = (method: string | undefined, headers: IncomingHttpHeaders, hasBody: boolean): boolean =>
  method === 'OPTIONS' &&
  !hasBody &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined
