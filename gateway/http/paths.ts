/**
 * Finds the service of a request's path, and the path for the service. Pure.
 *
 * The gateway decodes and normalises nothing. It routes a path by its first segments, byte for byte, and forwards it
 * unchanged without the prefix. A path that another server could read as a different path is malformed.
 */
import { pathOf } from '../../routes/request-target.ts'
import type { ServiceType } from '../../routes/route.ts'

/** The tool server of `mcp` and its bridge have separate ports. */
type UpstreamKind = ServiceType | 'mcp-bridge'

export type ServiceLocation = {
  upstream: UpstreamKind
  /** The request target for the service: the path without the prefix, and the query. */
  target: string
  /** The removed part of the path, for X-Forwarded-Prefix. */
  prefix: string
}

/** `database`: the id in the path, if it has one. */
type AddressedPath = { database: string; target: string; prefix: string }

export const serviceOf = (upstream: UpstreamKind): ServiceType => (upstream === 'mcp-bridge' ? 'mcp' : upstream)

const own = (prefix: string, upstream: ServiceType, target: string): ServiceLocation => {
  const rest = target.slice(prefix.length)
  return { upstream, prefix, target: rest.startsWith('/') ? rest : `/${rest}` }
}

/** The service of a well-formed target at a database's own host name; undefined if no service has this path. */
export function locationOf(target: string): ServiceLocation | undefined {
  const path = pathOf(target)
  const [, first, second] = path.split('/', 3)
  if (first === 'rest' || first === 'rag') return own(`/${first}`, first, target)
  if (first === 'mcp') {
    if (path === '/mcp') return { upstream: 'mcp-bridge', target, prefix: '' }
    if (second === 'v1') return { upstream: 'mcp', target, prefix: '' }
    return second === 'api' || path === '/mcp/health' ? own('/mcp', 'mcp', target) : undefined
  }
  const isBridge = first === '.well-known' || first === 'oauth' || path === '/register'
  return isBridge ? { upstream: 'mcp-bridge', target, prefix: '' } : undefined
}

const id = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const before = new RegExp(`^(/(${id}))(?:/|$)`)
/** RFC 8414 section 3 and RFC 9728 section 3 put the well-known part before the path of the issuer or resource. */
const within = new RegExp(`^/\\.well-known/[^/]+/(${id})(?:/|$)`)

/** The database that a well-formed target names at the gateway's own address; undefined if it names none. */
export function addressedPath(target: string): AddressedPath | undefined {
  const path = pathOf(target)
  const [, prefix = '', database] = before.exec(path) ?? []
  if (database !== undefined) {
    const rest = target.slice(prefix.length)
    return { database, target: rest.startsWith('/') ? rest : `/${rest}`, prefix }
  }
  const named = within.exec(path)?.[1]
  return named === undefined ? undefined : { database: named, target, prefix: '' }
}
