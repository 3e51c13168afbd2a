/** In which form the root is described: OpenAPI 2.0 as PostgREST does, or another one that is switched on and asked for. Pure. */
import { notAcceptable } from '../errors/catalogue.ts'
import { type AcceptedType, acceptedTypes, type MediaType, mediaTypeName, namesOf } from '../parse/media.ts'

type Form = 'openapi-2.0' | 'openapi-3.1' | 'typescript'

type FormRules = { readonly openapi31Enabled: boolean; readonly openapiTypescriptEnabled: boolean }

/** As Content-Type says it. */
export const formTypes: Readonly<Record<Form, string>> = {
  'openapi-2.0': 'application/openapi+json; charset=utf-8',
  'openapi-3.1': 'application/openapi+json; version=3.1; charset=utf-8',
  typescript: 'application/typescript; charset=utf-8',
}

const openApiNames = new Set(['application/openapi+json', 'application/vnd.oai.openapi+json'])

/** What PostgREST does not have. */
function ownForm({ name, parameters }: AcceptedType, rules: FormRules): Form | undefined {
  const version = parameters.get('version') ?? ''
  if (rules.openapi31Enabled && openApiNames.has(name) && /^3(\.1(\.\d+)?)?$/.test(version)) return 'openapi-3.1'
  return rules.openapiTypescriptEnabled && name === 'application/typescript' ? 'typescript' : undefined
}

/** Whoever accepts JSON of any kind is answered in OpenAPI 2.0. */
const plainTypes = new Set(['application/openapi+json', 'application/json', '*/*'])

/** The best of the accepted forms that there is, RST107 where there is none. `accept` is what the header has been understood as, in the same order. */
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
