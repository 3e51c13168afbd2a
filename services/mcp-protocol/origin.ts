/**
 * Which browser pages may send requests, and which names a server accepts as its own. The Origin identifies a page of
 * another site. The Host identifies a page whose name was made to resolve to this server (DNS rebinding). The server
 * refuses both. Clients other than browsers send no Origin, and may omit Host.
 */
import { isIP } from 'node:net'
import type { Headers } from '../http/message.ts'

export type SiteRules = {
  /**
   * Allowed origins as browsers send them: scheme, host and port. `*` allows all origins. Pages of loopback names are
   * always allowed.
   */
  readonly origins: readonly string[]
  /**
   * Names of this server besides loopback names, IP addresses and the names in `origins`. Pages under these names may
   * send requests. `any`: the server does not check Host. IP addresses cannot be rebound.
   */
  readonly hosts: readonly string[] | 'any'
}

const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Whether `name`, as written in a URL, is a loopback name. */
export const isLoopbackName = (name: string | undefined): boolean => name !== undefined && loopback.has(name)

/** Returns the name in a Host header, without the port and in lower case; undefined if the header is malformed. */
const nameOfHost = (host: string): string | undefined =>
  /^(\[[0-9a-f:.]+\]|[^:/@\s]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase()

/** Returns the name in an Origin; undefined if it is not the origin of a web page. */
function nameOfOrigin(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined
  const { hostname, protocol } = new URL(origin)
  return protocol === 'http:' || protocol === 'https:' ? hostname : undefined
}

const isAddress = (name: string): boolean => isIP(name.replace(/^\[|\]$/g, '')) !== 0

function isAllowedHost(host: string, { hosts, origins }: SiteRules): boolean {
  if (hosts === 'any') return true
  const name = nameOfHost(host)
  if (name === undefined) return false
  return isLoopbackName(name) || isAddress(name) || hosts.includes(name) || origins.map(nameOfOrigin).includes(name)
}

function isAllowedOrigin(origin: string, { hosts, origins }: SiteRules): boolean {
  if (origins.includes('*') || origins.includes(origin)) return true
  const name = nameOfOrigin(origin)
  return isLoopbackName(name) || (name !== undefined && hosts !== 'any' && hosts.includes(name))
}

/** Returns the header because of which the server refuses the request; undefined if the request is allowed. */
export function refusedHeader({ host, origin }: Headers, rules: SiteRules): 'Host' | 'Origin' | undefined {
  if (host !== undefined && !isAllowedHost(host, rules)) return 'Host'
  return origin !== undefined && !isAllowedOrigin(origin, rules) ? 'Origin' : undefined
}

/** Whether only this machine can reach a server that listens on `host`. */
export const isLocalAddress = (host: string): boolean =>
  isLoopbackName(host) || host === '::1' || host.startsWith('127.')
