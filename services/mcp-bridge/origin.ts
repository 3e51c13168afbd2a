/** Answers to browser pages: which may send requests, and which may read the answers. */
import type { HeaderList } from '../http/headers.ts'
import type { Headers } from '../http/message.ts'
import { refusedHeader } from '../mcp-protocol/origin.ts'
import { BridgeRefusal } from './errors.ts'

export type OriginSettings = {
  readonly cors: { readonly isEnabled: boolean; readonly origins: readonly string[] }
  /** Names of the bridge beside loopback names and IP addresses. Its own login page posts to it. */
  readonly hosts: readonly string[]
}

const refusals = {
  Host: 'this Host is not allowed: server.allowed_hosts lists those that are',
  Origin: 'this Origin is not allowed: server.cors.allowed_origins lists those that are',
}

/** @throws BridgeRefusal with 403 */
export function checkOrigin(headers: Headers, { cors, hosts }: OriginSettings): void {
  const refused = refusedHeader(headers, { origins: cors.isEnabled ? cors.origins : [], hosts })
  if (refused !== undefined) throw new BridgeRefusal({ status: 403 }, refusals[refused])
}

/** Headers of later revisions of the protocol: allowed to pages that ask for them. */
const newerHeaders = ['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name', 'Last-Event-ID']

/** Headers of every answer. */
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
