/** What a client can be asked for, by the capabilities it declares. They are its own words: anything but the shapes of MCP counts as nothing. */

import type { JsonObject } from '../../mcp-protocol/json.ts'
import { isObject } from '../../mcp-protocol/json-rpc.ts'
import type { Ability, InputRequest } from '../core/call.ts'

export const noAbilities: ReadonlySet<Ability> = new Set()

export function abilitiesOf({ elicitation, sampling, roots }: JsonObject): ReadonlySet<Ability> {
  const found = new Set<Ability>()
  if (isObject(elicitation)) {
    // Before there were two kinds, the capability had nothing in it.
    if (isObject(elicitation.form) || !isObject(elicitation.url)) found.add('elicitation-form')
    if (isObject(elicitation.url)) found.add('elicitation-url')
  }
  if (isObject(sampling)) found.add('sampling')
  if (isObject(sampling) && isObject(sampling.tools)) found.add('sampling-tools')
  if (isObject(roots)) found.add('roots')
  return found
}

function abilityFor({ method, params }: InputRequest): Ability {
  if (method === 'roots/list') return 'roots'
  if (method === 'sampling/createMessage') return params.tools === undefined ? 'sampling' : 'sampling-tools'
  return params.mode === 'url' ? 'elicitation-url' : 'elicitation-form'
}

const capabilityOf: Record<Ability, JsonObject> = {
  'elicitation-form': { elicitation: { form: {} } },
  'elicitation-url': { elicitation: { url: {} } },
  sampling: { sampling: {} },
  'sampling-tools': { sampling: { tools: {} } },
  roots: { roots: {} },
}

/** The capability that the client would have to declare for it, where it has not. */
export function missingCapability(request: InputRequest, abilities: ReadonlySet<Ability>): JsonObject | undefined {
  const ability = abilityFor(request)
  return abilities.has(ability) ? undefined : capabilityOf[ability]
}
