/** What a server's answer to `initialize` says, and what sessions are told of it where the bridge has asked for them all. */
import type { JsonObject } from '../mcp-protocol/json.ts'
import { isLegacyVersion } from '../mcp-protocol/versions.ts'
import { isObject, ownPrefix, type RequestMessage, type ResponseMessage } from './message.ts'

const multiplexCapability = `${ownPrefix}bridge`

function resultOf({ rest }: ResponseMessage): JsonObject | undefined {
  return isObject(rest.result) ? rest.result : undefined
}

export function isMultiplexed(initialized: ResponseMessage): boolean {
  const capabilities = resultOf(initialized)?.capabilities
  const experimental = isObject(capabilities) ? capabilities.experimental : undefined
  return isObject(experimental) && experimental[multiplexCapability] !== undefined
}

export function versionIn(answer: ResponseMessage): string {
  const version = resultOf(answer)?.protocolVersion
  return typeof version === 'string' ? version : ''
}

/** The version is the client's, where it is one that the server knows, or older; logging is not offered, since it would be everybody's. */
export function initializedAs(initialized: ResponseMessage, { id, params }: RequestMessage): ResponseMessage {
  const result = resultOf(initialized)
  if (result === undefined) return { ...initialized, id }
  const asked = params?.protocolVersion
  const newest = versionIn(initialized)
  const isKnown = isLegacyVersion(asked) && asked <= newest
  const { logging: _, ...capabilities } = isObject(result.capabilities) ? result.capabilities : {}
  return {
    kind: 'response',
    id,
    rest: { result: { ...result, capabilities, protocolVersion: isKnown ? asked : newest } },
  }
}
