/**
 * Which pages may reach the server with a browser's help. A page that says whose it is must be of this machine or be allowed. A server that listens on this machine alone is
 * asked for by a name of this machine: any other name leads here by a page's doing (DNS rebinding).
 */
import type { Headers } from '../http/message.ts'

export type Access = {
  /** As a browser writes them: scheme, host and port. */
  readonly origins: readonly string[]
  /** Whether only names of this machine, and those of the allowed origins, are names of the server. */
  readonly isLocal: boolean
}

const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Whether this is a name of this machine, as URLs have it. */
export const isLoopbackName = (name: string | undefined): boolean => name !== undefined && loopback.has(name)

/** The name in a header Host, without the port, in lower case; undefined where it is none. */
export const nameOfHost = (host: string): string | undefined =>
  /^(\[[0-9a-f:.]+\]|[^:/@\s]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase()

/** The name in an Origin; undefined where it is no page of the web's. */
export function nameOfOrigin(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined
  const { hostname, protocol } = new URL(origin)
  return protocol === 'http:' || protocol === 'https:' ? hostname : undefined
}

export function isAllowedSite({ origin, host }: Headers, { origins, isLocal }: Access): boolean {
  if (origin !== undefined && !origins.includes(origin) && !isLoopbackName(nameOfOrigin(origin))) return false
  if (!isLocal || host === undefined) return true
  const name = nameOfHost(host)
  return isLoopbackName(name) || (name !== undefined && origins.some(allowed => nameOfOrigin(allowed) === name))
}

/** `host`: where the server listens. */
export const isLocalAddress = (host: string): boolean =>
  isLoopbackName(host) || host === '::1' || host.startsWith('127.')
