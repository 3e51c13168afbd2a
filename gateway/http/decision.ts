/** Decides on a request by its host, path, address and token. Pure except for the digest. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import { isWellFormed } from '../../routes/request-target.ts'
import type { RouteTarget } from '../../routes/route.ts'
import { isAdmitted } from '../rules.ts'
import { addressedPath, locationOf, type ServiceLocation, serviceOf } from './paths.ts'
import {
  type HttpRefusal,
  malformedRequest,
  misdirected,
  noBridge,
  noService,
  notAllowed,
  unauthorized,
  unavailable,
  unknownHost,
  unknownPath,
} from './refusal.ts'
import type { CompiledHost, CompiledService, HostTable } from './table.ts'

export type HttpRequestFacts = {
  /** The Host header or `:authority`, with or without a port. */
  host: string | undefined
  /** The SNI of the TLS connection; undefined if the client sent none. */
  sni: string | undefined
  /** Path and query, as the client sent them. */
  target: string
  /** The client's address, normalised. */
  address: string
  authorization: string | undefined
  /** Whether it is a browser's preflight (`isPreflight`). */
  isPreflight: boolean
}

export type Forward = {
  kind: 'forward'
  label: string
  location: ServiceLocation
  target: RouteTarget
  /** Whether the gateway has checked the token. Then it removes the token. */
  isAuthorized: boolean
}
export type HttpDecision = Forward | { kind: 'refuse'; refusal: HttpRefusal; found?: CompiledService }

/** A host name or address in lower case, without port and final dot. Undefined if the text is neither. */
export function hostNameOf(host: string): string | undefined {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?$/.exec(host.toLowerCase()) ?? []
  return name === undefined || name.length > 255 ? undefined : name.replace(/\.$/, '')
}

/** Whether this name is an address of the gateway itself, so that the path names the database. */
const isAddress = (name: string): boolean => isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0

const refuse = (refusal: HttpRefusal, found?: CompiledService): HttpDecision => ({
  kind: 'refuse',
  refusal,
  ...(found && { found }),
})

/** `ownNames`: names of the gateway itself, in addition to its addresses. */
export function decideRequest(hosts: HostTable, ownNames: ReadonlySet<string>, facts: HttpRequestFacts): HttpDecision {
  const name = hostNameOf(facts.host ?? '')
  if (name === undefined) return refuse(malformedRequest('the host name of the request is malformed'))
  if (!isWellFormed(facts.target)) return refuse(malformedRequest('the path of the request is malformed'))
  if (facts.sni !== undefined && facts.sni.toLowerCase() !== name) return refuse(misdirected)
  const named = hosts.byName.get(name)
  if (named !== undefined) return decideHost(named, facts, '', facts.target)
  if (!isAddress(name) && !ownNames.has(name)) return refuse(unknownHost)
  const addressed = addressedPath(facts.target)
  const host = addressed && hosts.byId.get(addressed.database)
  if (host === undefined) return refuse(unknownHost)
  return decideHost(host, facts, addressed?.prefix ?? '', addressed?.target ?? '/')
}

function decideHost(host: CompiledHost, facts: HttpRequestFacts, prefix: string, target: string): HttpDecision {
  const found = locationOf(target)
  if (found === undefined) return refuse(unknownPath([...host.services.keys()]))
  const location = { ...found, prefix: `${prefix}${found.prefix}` }
  const type = serviceOf(location.upstream)
  const service = host.services.get(type)
  if (service === undefined) return refuse(noService(type))
  if (!isAdmitted(service, facts.address)) return refuse(notAllowed(type, host.label, facts.address), service)
  // A browser sends no credentials with a preflight (WHATWG Fetch, section 3.2.2), and the server answers it without
  // its API.
  if (needsToken(service) && !facts.isPreflight && !isToken(service, facts.authorization))
    return refuse(unauthorized(facts.authorization !== undefined), service)
  if (service.unavailable !== undefined) return refuse(unavailable(type, service.unavailable), service)
  const upstream = location.upstream === 'mcp-bridge' ? service.bridge : service.target
  if (upstream === undefined) return refuse(noBridge, service)
  return { kind: 'forward', label: host.label, location, target: upstream, isAuthorized: needsToken(service) }
}

/** `rag` always needs a token at the gateway, because the retrieval server itself does not authenticate. */
const needsToken = ({ service, tokenDigest }: CompiledService): boolean =>
  service === 'rag' || tokenDigest !== undefined

function isToken({ tokenDigest }: CompiledService, authorization: string | undefined): boolean {
  const token = /^bearer +([^ ]+) *$/i.exec(authorization ?? '')?.[1]
  if (token === undefined || tokenDigest === undefined) return false
  return timingSafeEqual(createHash('sha256').update(token).digest(), tokenDigest)
}
