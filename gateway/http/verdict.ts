/** What becomes of a request, decided by its host, path, address and token. Pure but for the digest. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import type { RouteTarget } from '../../routes/route.ts'
import { isAdmitted } from '../rules.ts'
import { addressedPath, isWellFormed, type Place, placeOf, serviceOf } from './paths.ts'
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
  /** The Host header, or :authority; with or without a port. */
  host: string | undefined
  /** The name of the TLS connection; undefined where the client named none. */
  sni: string | undefined
  /** Path and query, as sent. */
  target: string
  /** Of the client, normalised. */
  address: string
  authorization: string | undefined
  /** Whether a browser asks beforehand what a page may send (`isPreflight`). */
  isPreflight: boolean
}

export type Forward = {
  kind: 'forward'
  label: string
  place: Place
  target: RouteTarget
  /** Whether the gateway has checked the token, which is then nobody else's. */
  isAuthorized: boolean
}
export type HttpVerdict = Forward | { kind: 'refuse'; refusal: HttpRefusal; found?: CompiledService }

/** A host name or address in lower case, without port and final dot; undefined where the text is none. */
export function hostNameOf(host: string): string | undefined {
  const [, name] = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?$/.exec(host.toLowerCase()) ?? []
  return name === undefined || name.length > 255 ? undefined : name.replace(/\.$/, '')
}

/** Whether clients that use this name reach the gateway by its address, so that the path names the database. */
const isAddress = (name: string): boolean => isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0

const refuse = (refusal: HttpRefusal, found?: CompiledService): HttpVerdict => ({
  kind: 'refuse',
  refusal,
  ...(found && { found }),
})

/** `ownNames`: further names of the gateway itself, beside its addresses. */
export function judge(hosts: HostTable, ownNames: ReadonlySet<string>, facts: HttpRequestFacts): HttpVerdict {
  const name = hostNameOf(facts.host ?? '')
  if (name === undefined) return refuse(malformedRequest('the host name of the request is malformed'))
  if (!isWellFormed(facts.target)) return refuse(malformedRequest('the path of the request is malformed'))
  if (facts.sni !== undefined && facts.sni.toLowerCase() !== name) return refuse(misdirected)
  const named = hosts.byName.get(name)
  if (named !== undefined) return judgeHost(named, facts, '', facts.target)
  if (!isAddress(name) && !ownNames.has(name)) return refuse(unknownHost)
  const addressed = addressedPath(facts.target)
  const host = addressed && hosts.byId.get(addressed.database)
  if (host === undefined) return refuse(unknownHost)
  return judgeHost(host, facts, addressed?.prefix ?? '', addressed?.target ?? '/')
}

function judgeHost(host: CompiledHost, facts: HttpRequestFacts, prefix: string, target: string): HttpVerdict {
  const found = placeOf(target)
  if (found === undefined) return refuse(unknownPath([...host.services.keys()]))
  const place = { ...found, prefix: `${prefix}${found.prefix}` }
  const type = serviceOf(place.upstream)
  const service = host.services.get(type)
  if (service === undefined) return refuse(noService(type))
  if (!isAdmitted(service, facts.address)) return refuse(notAllowed(type, host.label, facts.address), service)
  // A browser sends no credentials with it (WHATWG Fetch, section 3.2.2), and the server answers it without its API.
  if (needsToken(service) && !facts.isPreflight && !isToken(service, facts.authorization))
    return refuse(unauthorized(facts.authorization !== undefined), service)
  if (service.unavailable !== undefined) return refuse(unavailable(type, service.unavailable), service)
  const upstream = place.upstream === 'mcp-bridge' ? service.bridge : service.target
  if (upstream === undefined) return refuse(noBridge, service)
  return { kind: 'forward', label: host.label, place, target: upstream, isAuthorized: needsToken(service) }
}

/** The retrieval server itself asks for no credential. */
const needsToken = ({ service, tokenDigest }: CompiledService): boolean =>
  service === 'rag' || tokenDigest !== undefined

function isToken({ tokenDigest }: CompiledService, authorization: string | undefined): boolean {
  const token = /^bearer +([^ ]+) *$/i.exec(authorization ?? '')?.[1]
  if (token === undefined || tokenDigest === undefined) return false
  return timingSafeEqual(createHash('sha256').update(token).digest(), tokenDigest)
}
