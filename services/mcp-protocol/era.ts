/** Which revision a message is of. The body decides; over HTTP a header decides where the body does not say. Pure. */

import { hasClaim, readEnvelope } from './envelope.ts'
import { ProtocolError } from './errors.ts'
import type { Received } from './json-rpc.ts'
import { isLegacyVersion, legacyVersions, modernVersion } from './versions.ts'

type Era =
  | { readonly kind: 'legacy' }
  | { readonly kind: 'modern' }
  | { readonly kind: 'refused'; readonly error: ProtocolError }

const legacy: Era = { kind: 'legacy' }
const modern: Era = { kind: 'modern' }

/** `version`: the header MCP-Protocol-Version, trimmed. Dates compare as texts; what is no date and comes after them is a revision that is not known yet. */
export const isModernVersion = (version: string | undefined): boolean =>
  version !== undefined && version >= modernVersion

function isWellClaimed(message: Received): boolean {
  if (message.kind !== 'request' || !hasClaim(message.params)) return false
  try {
    readEnvelope(message.params)
    return true
  } catch {
    return false
  }
}

/** What nobody can tell is of the older revisions, unless the header says otherwise. */
function eraWithoutClaim(version: string | undefined, isRequest: boolean): Era {
  if (isModernVersion(version)) {
    if (!isRequest) return modern
    const problem =
      '_meta must have io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities'
    return { kind: 'refused', error: new ProtocolError({ kind: 'invalid envelope', problem }) }
  }
  if (version === undefined || isLegacyVersion(version)) return legacy
  const problem = `MCP-Protocol-Version must be one of ${[modernVersion, ...legacyVersions].join(', ')}`
  return { kind: 'refused', error: new ProtocolError({ kind: 'invalid request', problem }) }
}

export function eraOf(message: Received, version: string | undefined): Era {
  if (message.kind === 'invalid') return isModernVersion(version) ? modern : legacy
  if (message.kind === 'response') return eraWithoutClaim(version, false)
  if (message.kind === 'request' && message.method === 'initialize' && !isWellClaimed(message)) {
    if (!isModernVersion(version)) return legacy
    const problem = 'initialize is of the revisions before the one in MCP-Protocol-Version'
    return { kind: 'refused', error: new ProtocolError({ kind: 'header mismatch', problem }) }
  }
  return hasClaim(message.params) ? modern : eraWithoutClaim(version, message.kind === 'request')
}
