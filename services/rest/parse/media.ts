/** Media types of Accept and Content-Type (RFC 9110, sections 8.3.1 and 12.5.1). */

type PlanOption = 'analyze' | 'verbose' | 'settings' | 'buffers' | 'wal'

export type MediaType =
  | { readonly kind: 'json' }
  | { readonly kind: 'array'; readonly stripNulls: true }
  | { readonly kind: 'object'; readonly stripNulls: boolean }
  | {
      readonly kind: 'plan'
      readonly format: 'json' | 'text'
      readonly of: MediaType
      readonly options: readonly PlanOption[]
    }
  | { readonly kind: 'any' }
  /** `name` is in lower case and has no parameters. */
  | { readonly kind: 'named'; readonly name: string }

const planOptions: readonly PlanOption[] = ['analyze', 'verbose', 'settings', 'buffers', 'wal']
const withCharset = new Set(['text/csv', 'text/plain', 'text/xml', 'application/openapi+json', 'application/geo+json'])

/** `name` and the parameters' names are in lower case. */
export type AcceptedType = { readonly name: string; readonly parameters: ReadonlyMap<string, string> }

/** Splits at separators outside of double quotes. */
function split(text: string, separator: ',' | ';'): string[] {
  if (!text.includes('"')) return text.split(separator)
  return text.match(separator === ',' ? /(?:"(?:\\.|[^"\\])*"?|[^",])+/g : /(?:"(?:\\.|[^"\\])*"?|[^";])+/g) ?? []
}

function parseOne(text: string): AcceptedType {
  const [name = '', ...rest] = split(text, ';').map(part => part.trim())
  const parameters = new Map<string, string>()
  for (const part of rest) {
    const equals = part.indexOf('=')
    if (equals === -1) continue
    const value = part.slice(equals + 1).trim()
    const bare = value.startsWith('"') ? value.replace(/^"|"$/g, '').replace(/\\(.)/g, '$1') : value
    parameters.set(part.slice(0, equals).trim().toLowerCase(), bare)
  }
  return { name: name.toLowerCase(), parameters }
}

function understood({ name, parameters }: AcceptedType): MediaType {
  switch (name) {
    case 'application/json':
      return { kind: 'json' }
    case 'application/vnd.pgrst.array':
    case 'application/vnd.pgrst.array+json':
      return parameters.get('nulls') === 'stripped' ? { kind: 'array', stripNulls: true } : { kind: 'json' }
    case 'application/vnd.pgrst.object':
    case 'application/vnd.pgrst.object+json':
      return { kind: 'object', stripNulls: parameters.get('nulls') === 'stripped' }
    case 'application/vnd.pgrst.plan':
    case 'application/vnd.pgrst.plan+text':
    case 'application/vnd.pgrst.plan+json': {
      const of = understood(parseOne(parameters.get('for') ?? 'application/json'))
      const requested = parameters.get('options')?.split('|') ?? []
      const options = planOptions.filter(option => requested.includes(option))
      return { kind: 'plan', format: name.endsWith('json') ? 'json' : 'text', of, options }
    }
    case '*/*':
      return { kind: 'any' }
    default:
      return { kind: 'named', name }
  }
}

/** The types in Accept, best first: by quality, then by specificity. */
export function acceptedTypes(header: string): AcceptedType[] {
  return split(header, ',')
    .map(part => part.trim())
    .filter(part => part !== '')
    .slice(0, 100)
    .map(part => {
      const parsed = parseOne(part)
      const quality = Number(parsed.parameters.get('q') ?? 1)
      const openness = parsed.name === '*/*' ? 2 : parsed.name.endsWith('/*') ? 1 : 0
      return { parsed, quality: Number.isNaN(quality) ? 1 : quality, openness }
    })
    .sort((a, b) => b.quality - a.quality || a.openness - b.openness)
    .map(({ parsed }) => parsed)
}

/** Returns the parsed types. A missing header means any type. An empty header means no type. */
export function parseAccept(header: string | undefined): MediaType[] {
  if (header === undefined || header === '*/*') return [{ kind: 'any' }]
  return acceptedTypes(header).map(understood)
}

/** The name in a Content-Type header, in lower case. */
export const contentTypeName = (header: string): string => parseOne(header).name

/** A media type without parameters. */
export function mediaTypeName(type: MediaType): string {
  switch (type.kind) {
    case 'json':
      return 'application/json'
    case 'array':
      return 'application/vnd.pgrst.array+json'
    case 'object':
      return 'application/vnd.pgrst.object+json'
    case 'plan':
      return `application/vnd.pgrst.plan+${type.format}`
    case 'any':
      return '*/*'
    case 'named':
      return type.name
  }
}

/** A media type as in Content-Type. */
export function contentType(type: MediaType): string {
  const name = mediaTypeName(type)
  switch (type.kind) {
    case 'json':
      return 'application/json; charset=utf-8'
    case 'array':
      return `${name};nulls=stripped; charset=utf-8`
    case 'object':
      return `${name}${type.stripNulls ? ';nulls=stripped' : ''}; charset=utf-8`
    case 'plan': {
      const options = type.options.length === 0 ? '' : `; options=${type.options.join('|')}`
      return `${name}; for="${mediaTypeName(type.of)}"${options}; charset=utf-8`
    }
    case 'any':
      return 'application/octet-stream'
    case 'named':
      return withCharset.has(name) ? `${name}; charset=utf-8` : name
  }
}

/** Media types as error texts name them. */
export const namesOf = (types: readonly MediaType[]): string[] =>
  types.map(type => contentType(type).replace('; charset=utf-8', ''))
