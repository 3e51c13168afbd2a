/** What a server's answer to `initialize` says, and what sessions are told of it where the bridge has asked for them all. */

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

/** The version is the client's, where it is one that the server knows, or older; logging is not offered, since it would be everybody's. */
export function initializedAs(initialized: ResponseMessage, { id, params }: RequestMessage): ResponseMessage {
  const result = resultOf(initialized)
  if (result === undefined) return { ...initialized, id }
  const asked = params.protocolVersion
  const newest = versionIn(initialized)
  const isKnown = isLegacyVersion(asked) && asked <= newest
  const { logging: _, ...capabilities } = isObject(result.capabilities) ? result.capabilities : {}
  return {
    kind: 'response',
    id,
    outcome: { result: { ...result, capabilities, protocolVersion: isKnown ? asked : newest } },
  }
}
