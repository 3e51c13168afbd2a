/** Cross-origin requests (WHATWG Fetch, section 3.2): which pages may ask, and what they may read of the answer. */

type HeaderList = [name: string, value: string][]

export type CorsRules = {
  /** Any where undefined. */
  readonly origins: readonly string[] | undefined
  /** That pages may ask with, as the header lists them. */
  readonly methods: string
  /** What pages may read of an answer, as the header lists them. */
  readonly exposedHeaders: string
}

/** `*` for any page, or the origin itself where it is on the list. */
function allowedOrigin(origin: string | undefined, origins: readonly string[] | undefined): HeaderList | undefined {
  if (origins === undefined) return [['Access-Control-Allow-Origin', '*']]
  const vary: [string, string] = ['Vary', 'Origin']
  if (origin === undefined || !origins.includes(origin)) return undefined
  return [['Access-Control-Allow-Origin', origin], ['Access-Control-Allow-Credentials', 'true'], vary]
}

/** What goes with every response. An answer to OPTIONS is of the resource, not one that pages read. */
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

/** The answer to a browser that asks beforehand; undefined where this is no such question. */
export function preflight(
  headers: Readonly<Record<string, string | undefined>>,
  { origins, methods }: CorsRules,
): HeaderList | undefined {
  const { origin } = headers
  if (origin === undefined || headers['access-control-request-method'] === undefined) return undefined
  const allow = allowedOrigin(origin, origins)
  if (allow === undefined) return [['Vary', 'Origin']]
  const asked = (headers['access-control-request-headers'] ?? '').split(',').map(name => name.trim())
  const list = ['Authorization', ...asked.filter(name => name !== ''), 'Accept', 'Accept-Language', 'Content-Language']
  return [
    ...allow,
    ['Access-Control-Allow-Methods', methods],
    ['Access-Control-Allow-Headers', [...new Set(list)].join(', ')],
    ['Access-Control-Max-Age', '86400'],
  ]
}
