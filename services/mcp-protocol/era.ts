/**
 * Decides to which revision a message belongs. The body decides. Over HTTP, a header decides if the body names no
 * revision.
 */

import { declaresVersion, readEnvelope } from './envelope.ts'
import { ProtocolError } from './errors.ts'
import type { Received } from './json-rpc.ts'
import { isLegacyVersion, legacyVersions, modernVersion } from './versions.ts'

type Era =
  | { readonly kind: 'legacy' }
  | { readonly kind: 'modern' }
  | { readonly kind: 'refused'; readonly error: ProtocolError }

const legacy: Era = { kind: 'legacy' }
const modern: Era = { kind: 'modern' }

/**
 * `version`: the trimmed header MCP-Protocol-Version. The comparison is by text. A text that is not a date, but sorts
 * after the dates, counts as an unknown newer revision.
 */
export const isModernVersion = (version: string | undefined): boolean =>
  version !== undefined && version >= modernVersion

function hasValidEnvelope(message: Received): boolean {
  if (message.kind !== 'request' || !declaresVersion(message.params)) return false
  try {
    readEnvelope(message.params)
    return true
  } catch {
    return false
  }
}

/** A message without a declared revision belongs to an older revision, unless the header names a newer revision. */
function eraByHeader(version: string | undefined, isRequest: boolean): Era {
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
  if (message.kind === 'response') return eraByHeader(version, false)
  if (message.kind === 'request' && message.method === 'initialize' && !hasValidEnvelope(message)) {
    if (!isModernVersion(version)) return legacy
    const problem = 'initialize is a method of revisions before the one in MCP-Protocol-Version'
    return { kind: 'refused', error: new ProtocolError({ kind: 'header mismatch', problem }) }
  }
  return declaresVersion(message.params) ? modern : eraByHeader(version, message.kind === 'request')
}
