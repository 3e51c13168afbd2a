/**
 * Cross-origin requests (the CORS protocol of WHATWG Fetch): the origins whose pages may read responses, and
 * the response headers that these pages may read.
 */

type HeaderList = [name: string, value: string][]

export type CorsRules = {
  /** Undefined: any origin. */
  readonly origins: readonly string[] | undefined
  /** The allowed methods, as a header value. */
  readonly methods: string
  /** The response headers that pages may read, as a header value. */
  readonly exposedHeaders: string
}

/** The headers that allow an origin. Undefined if the origin is not listed. */
function allowedOrigin(origin: string | undefined, origins: readonly string[] | undefined): HeaderList | undefined {
  if (origins === undefined) return [['Access-Control-Allow-Origin', '*']]
  const vary: [string, string] = ['Vary', 'Origin']
  if (origin === undefined || !origins.includes(origin)) return undefined
  return [['Access-Control-Allow-Origin', origin], ['Access-Control-Allow-Credentials', 'true'], vary]
}

/**
 * The CORS headers of a response, except the response to a preflight request. An OPTIONS request gets no
 * Access-Control-Expose-Headers, because scripts in pages do not read its response.
 */
export function corsHeaders(
  { method, origin }: { readonly method: string; readonly origin: string | undefined },
  { origins, exposedHeaders }: CorsRules,
): HeaderList {
  const allow = allowedOrigin(origin, origins)
  if (allow === undefined) return [['Vary', 'Origin']]
  return origin === undefined || method === 'OPTIONS'
    ? allow
    : [...allow, ['Access-Control-Expose-Headers', exposedHeaders]]
}

/** The headers of the response to a preflight request. Undefined if the request is not a preflight. */
export function preflight(
  headers: Readonly<Record<string, string | undefined>>,
  { origins, methods }: CorsRules,
): HeaderList | undefined {
  const { origin } = headers
  if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined
  const allow = allowedOrigin(origin, origins)
  if (allow === undefined) return [['Vary', 'Origin']]
  const requestedHeaders = (headers['access-control-request-headers'] ?? '').split(',').map(name => name.trim())
  const list = [
    'Authorization',
    ...requestedHeaders.filter(name => name !== ''),
    'Accept',
    'Accept-Language',
    'Content-Language',
  ]
  return [
    ...allow,
    ['Access-Control-Allow-Methods', methods],
    ['Access-Control-Allow-Headers', [...new Set(list)].join(', ')],
    ['Access-Control-Max-Age', '86400'],
  ]
}
