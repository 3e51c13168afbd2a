/** What the API sends to a service: its target, its headers, its body. Nothing else of a client's request is sent. Pure. */
import { isIP } from 'node:net'
import { isWellFormed } from '../../routes/request-target.ts'
import { badRequest } from '../errors.ts'
import type { McpTry, RagTry, RestTry } from './schema.ts'

export type Outgoing = {
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

const json = { 'content-type': 'application/json' }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const mcpVersion = '2025-11-25'

/** The headers of every request. Services show the client's address in their logs, as behind the gateway. */
const common = (address: string) => ({
  'accept-encoding': 'identity',
  'user-agent': 'espalier-api',
  ...(isIP(address) === 0 ? {} : { 'x-forwarded-for': address }),
})

/** @throws ApiError 400 if servers could read the path in different ways */
export function restRequest({ method, path, query, body, token }: RestTry, address: string): Outgoing {
  const target = `/${path.replace(/^\//, '')}${query === '' ? '' : `?${query}`}`
  if (!isWellFormed(target)) throw badRequest('path: must not contain //, \\, or the segments . and .., also encoded')
  return {
    method,
    target,
    headers: {
      ...common(address),
      accept: '*/*',
      ...(body === undefined ? {} : json),
      ...(token === undefined ? {} : bearer(token)),
    },
    ...(body === undefined ? {} : { body }),
  }
}

/** The tool server has no sessions at this path, and accepts a call without `initialize` (docs/mcp.md). */
export const mcpRequest = (
  { tool, arguments: given = {} }: McpTry,
  { address, token, id }: { address: string; token: string; id: string },
): Outgoing => ({
  method: 'POST',
  target: '/mcp/v1',
  headers: {
    ...{ ...common(address), ...json, ...bearer(token) },
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': mcpVersion,
  },
  body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: tool, arguments: given } }),
})

/** The gateway checks the token of `rag`, and does not forward it. So the server needs none. */
export const ragRequest = ({ pipeline, query }: RagTry, address: string): Outgoing => ({
  method: 'POST',
  target: `/v1/pipelines/${encodeURIComponent(pipeline)}`,
  headers: { ...common(address), ...json, accept: 'application/json' },
  body: JSON.stringify({ query, include_sources: true, stream: false }),
})
