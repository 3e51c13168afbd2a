/**
 * The requests that a client accepts, according to its declared capabilities. Capabilities are untrusted input: the
 * server ignores everything that does not have MCP's structure.
 */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import type { InputKind, InputRequest } from '../core/call.ts'

export const noInputKinds: ReadonlySet<InputKind> = new Set()

export function inputKindsOf({ elicitation, sampling, roots }: JsonObject): ReadonlySet<InputKind> {
  const found = new Set<InputKind>()
  if (isObject(elicitation)) {
    // Older revisions had only elicitation by a form, and the capability was an empty object.
    if (isObject(elicitation.form) || !isObject(elicitation.url)) found.add('elicitation-form')
    if (isObject(elicitation.url)) found.add('elicitation-url')
  }
  if (isObject(sampling)) found.add('sampling')
  if (isObject(sampling) && isObject(sampling.tools)) found.add('sampling-tools')
  if (isObject(roots)) found.add('roots')
  return found
}

function abilityFor({ method, params }: InputRequest): InputKind {
  if (method === 'roots/list') return 'roots'
  if (method === 'sampling/createMessage') return params.tools === undefined ? 'sampling' : 'sampling-tools'
  return params.mode === 'url' ? 'elicitation-url' : 'elicitation-form'
}

const capabilityOf: Record<InputKind, JsonObject> = {
  'elicitation-form': { elicitation: { form: {} } },
  'elicitation-url': { elicitation: { url: {} } },
  sampling: { sampling: {} },
  'sampling-tools': { sampling: { tools: {} } },
  roots: { roots: {} },
}

/** Returns the capability that the request requires. Returns undefined if the client has declared the capability. */
export function missingCapability(request: InputRequest, inputKinds: ReadonlySet<InputKind>): JsonObject | undefined {
  const ability = abilityFor(request)
  return inputKinds.has(ability) ? undefined : capabilityOf[ability]
}
