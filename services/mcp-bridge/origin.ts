/** Decides which browser pages may send requests, and which pages may read the responses. */
import type { HeaderList } from '../http/headers.ts'
import type { Headers } from '../http/message.ts'
import { refusedHeader } from '../mcp-protocol/origin.ts'
import { BridgeRefusal } from './errors.ts'

export type OriginSettings = {
  readonly cors: { readonly isEnabled: boolean; readonly origins: readonly string[] }
  /**
   * Names of the bridge besides loopback names and IP addresses. The bridge's own login page sends forms to these
   * names.
   */
  readonly hosts: readonly string[]
}

const refusals = {
  Host: 'this Host is not allowed: add it to server.allowed_hosts',
  Origin: 'this Origin is not allowed: add it to server.cors.allowed_origins',
}

/** @throws BridgeRefusal with 403 */
export function checkOrigin(headers: Headers, { cors, hosts }: OriginSettings): void {
  const refused = refusedHeader(headers, { origins: cors.isEnabled ? cors.origins : [], hosts })
  if (refused !== undefined) throw new BridgeRefusal({ status: 403 }, refusals[refused])
}

/** Headers of later revisions. The bridge allows them only to pages that request them. */
const newerHeaders = ['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name', 'Last-Event-ID']

/** Headers of every response. */
export function corsHeaders(headers: Headers, settings: OriginSettings): HeaderList {
  const { origin } = headers
  const { isEnabled, origins } = settings.cors
  if (!isEnabled) return []
  const vary = ['Vary', 'Origin'] as const
  if (origin === undefined || !(origins.includes('*') || origins.includes(origin))) return [vary]
  const requested = (headers['access-control-request-headers'] ?? '').split(',').map(name => name.trim().toLowerCase())
  const newer = newerHeaders.filter(name => requested.includes(name.toLowerCase()))
  return [
    // With `*`, browsers send no credentials.
    ['Access-Control-Allow-Origin', origins.includes(origin) ? origin : '*'],
    ['Access-Control-Allow-Methods', 'GET, POST, DELETE, OPTIONS'],
    ['Access-Control-Allow-Headers', ['Authorization', 'Content-Type', 'Mcp-Session-Id', ...newer].join(', ')],
    ['Access-Control-Expose-Headers', 'Mcp-Session-Id'],
    ['Access-Control-Allow-Credentials', 'true'],
    ['Access-Control-Max-Age', '3600'],
    vary,
  ]
}
