/**
 * Reads a server's response to `initialize`. If the bridge has initialized the server for all sessions, it answers each
 * session from this response.
 */

import { bridgeCapability } from '../mcp-protocol/bridge-fields.ts'
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isObject, type RequestMessage, type ResponseMessage } from '../mcp-protocol/json-rpc.ts'
import { isLegacyVersion } from '../mcp-protocol/versions.ts'

function resultOf({ outcome }: ResponseMessage): JsonObject | undefined {
  return isObject(outcome.result) ? outcome.result : undefined
}

export function isMultiplexed(initialized: ResponseMessage): boolean {
  const capabilities = resultOf(initialized)?.capabilities
  const experimental = isObject(capabilities) ? capabilities.experimental : undefined
  return isObject(experimental) && experimental[bridgeCapability] !== undefined
}

export function versionIn(answer: ResponseMessage): string {
  const version = resultOf(answer)?.protocolVersion
  return typeof version === 'string' ? version : ''
}

/**
 * Returns the client's version if the server supports it, otherwise the server's version. Omits logging, because a log
 * level would apply to all clients.
 */
export function initializedAs(initialized: ResponseMessage, { id, params }: RequestMessage): ResponseMessage {
  const result = resultOf(initialized)
  if (result === undefined) return { ...initialized, id }
  const requested = params.protocolVersion
  const newest = versionIn(initialized)
  const isKnown = isLegacyVersion(requested) && requested <= newest
  const { logging: _, ...capabilities } = isObject(result.capabilities) ? result.capabilities : {}
  return {
    kind: 'response',
    id,
    outcome: { result: { ...result, capabilities, protocolVersion: isKnown ? requested : newest } },
  }
}
