/** Which pages may ask the bridge, and by which names it is asked: what a browser is made to send by a foreign page is refused. */
import { isIP } from 'node:net'
import type { HeaderList } from '../http/headers.ts'
import type { Headers } from '../http/message.ts'
import { isLoopbackName, nameOfHost, nameOfOrigin } from '../mcp-protocol/origin.ts'
import { BridgeRefusal } from './errors.ts'

export type OriginSettings = {
  readonly cors: { readonly isEnabled: boolean; readonly origins: readonly string[] }
  /** Names beside those of loopback. An IP address is no name: nobody can make it point elsewhere. */
  readonly hosts: readonly string[]
}

const isAddress = (name: string) => isIP(name.replace(/^\[|\]$/g, '')) !== 0

function isKnownHost(name: string | undefined, { hosts }: OriginSettings): boolean {
  return name !== undefined && (isLoopbackName(name) || isAddress(name) || hosts.includes(name))
}

/** Pages of the bridge itself are among them: its login posts to it. */
function isAllowedOrigin(origin: string, settings: OriginSettings): boolean {
  const { isEnabled, origins } = settings.cors
  if (isEnabled && (origins.includes('*') || origins.includes(origin))) return true
  const name = nameOfOrigin(origin)
  return isLoopbackName(name) || (name !== undefined && settings.hosts.includes(name))
}

/** @throws BridgeRefusal with 403 */
export function checkOrigin(headers: Headers, settings: OriginSettings): void {
  const { host, origin } = headers
  if (!isKnownHost(host === undefined ? undefined : nameOfHost(host), settings))
    throw new BridgeRefusal({ status: 403 }, 'this Host is not allowed: server.allowed_hosts lists those that are')
  if (origin !== undefined && !isAllowedOrigin(origin, settings))
    throw new BridgeRefusal(
      { status: 403 },
      'this Origin is not allowed: server.cors.allowed_origins lists those that are',
    )
}

/** Of later revisions of the protocol: allowed to pages that ask for them. */
const newerHeaders = ['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name', 'Last-Event-ID']

/** What goes with every answer to a page that may read it. */
export function corsHeaders(headers: Headers, settings: OriginSettings): HeaderList {
  const { origin } = headers
  const { isEnabled, origins } = settings.cors
  if (!isEnabled) return []
  const vary = ['Vary', 'Origin'] as const
  if (origin === undefined || !(origins.includes('*') || origins.includes(origin))) return [vary]
  const asked = (headers['access-control-request-headers'] ?? '').split(',').map(name => name.trim().toLowerCase())
  const newer = newerHeaders.filter(name => asked.includes(name.toLowerCase()))
  return [
    // As configured: a browser that is told `*` sends no credentials of its own.
    ['Access-Control-Allow-Origin', origins.includes(origin) ? origin : '*'],
    ['Access-Control-Allow-Methods', 'GET, POST, DELETE, OPTIONS'],
    ['Access-Control-Allow-Headers', ['Authorization', 'Content-Type', 'Mcp-Session-Id', ...newer].join(', ')],
    ['Access-Control-Expose-Headers', 'Mcp-Session-Id'],
    ['Access-Control-Allow-Credentials', 'true'],
    ['Access-Control-Max-Age', '3600'],
    vary,
  ]
}
