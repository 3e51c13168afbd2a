/**
 * Selects the format of the root's description: OpenAPI 2.0 as in PostgREST, or an enabled format that the client
 * requests. Pure.
 */
import { notAcceptable } from '../errors/catalogue.ts'
import { type AcceptedType, acceptedTypes, type MediaType, mediaTypeName, namesOf } from '../parse/media.ts'

type Form = 'openapi-2.0' | 'openapi-3.1' | 'typescript'

type FormRules = { readonly openapi31Enabled: boolean; readonly openapiTypescriptEnabled: boolean }

/** The media type, as in Content-Type. */
export const formTypes: Readonly<Record<Form, string>> = {
  'openapi-2.0': 'application/openapi+json; charset=utf-8',
  'openapi-3.1': 'application/openapi+json; version=3.1; charset=utf-8',
  typescript: 'application/typescript; charset=utf-8',
}

const openApiNames = new Set(['application/openapi+json', 'application/vnd.oai.openapi+json'])

/** Formats that PostgREST does not have. */
function ownForm({ name, parameters }: AcceptedType, rules: FormRules): Form | undefined {
  const version = parameters.get('version') ?? ''
  if (rules.openapi31Enabled && openApiNames.has(name) && /^3(\.1(\.\d+)?)?$/.test(version)) return 'openapi-3.1'
  return rules.openapiTypescriptEnabled && name === 'application/typescript' ? 'typescript' : undefined
}

/** A client that accepts any JSON gets OpenAPI 2.0. */
const plainTypes = new Set(['application/openapi+json', 'application/json', '*/*'])

/**
 * The best available format that the client accepts, RST107 if there is none. `accept`: the parsed header, in the same
 * order.
 */
export function negotiateForm(header: string | undefined, accept: readonly MediaType[], rules: FormRules): Form {
  const named = acceptedTypes(header ?? '')
  for (const [index, type] of accept.entries()) {
    const written = named[index]
    const form = written === undefined ? undefined : ownForm(written, rules)
    if (form !== undefined) return form
    if (plainTypes.has(mediaTypeName(type))) return 'openapi-2.0'
  }
  throw notAcceptable(namesOf(accept))
}
