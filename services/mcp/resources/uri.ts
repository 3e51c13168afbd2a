/** The URIs and URI templates of the built-in resources. */

export type ResourceName =
  | 'system_info'
  | 'schemas'
  | 'extensions'
  | 'settings'
  | 'activity'
  | 'statistics'
  | 'schema'
  | 'table'
  | 'setting'
  | 'extension'

/** A resource's name, and the values of its template's variables. */
export type RequestedResource =
  | { readonly name: 'system_info' | 'schemas' | 'extensions' | 'settings' | 'activity' | 'statistics' }
  | { readonly name: 'schema'; readonly schema: string }
  | { readonly name: 'table'; readonly schema: string; readonly table: string }
  | { readonly name: 'setting'; readonly setting: string }
  | { readonly name: 'extension'; readonly extension: string }

const scheme = 'pg://'
const longestUri = 1_000
/** The maximum length of a percent-encoded Postgres name. */
const longestName = 200

export const templates = {
  schema: `${scheme}schemas/{schema}`,
  table: `${scheme}schemas/{schema}/tables/{table}`,
  setting: `${scheme}settings/{name}`,
  extension: `${scheme}extensions/{name}`,
} as const

const plain = ['system_info', 'schemas', 'extensions', 'settings', 'activity', 'statistics'] as const

/** Returns undefined if the URI does not belong to a built-in resource. */
export function requestedResource(uri: string): RequestedResource | undefined {
  if (uri.length > longestUri || !uri.startsWith(scheme)) return undefined
  const segments = uri.slice(scheme.length).split('/').map(decoded)
  const [first, second, third, fourth] = segments
  if (segments.includes(undefined) || first === undefined) return undefined
  if (second === undefined) {
    const name = plain.find(one => one === first)
    return segments.length === 1 && name !== undefined ? { name } : undefined
  }
  if (segments.length === 2) {
    if (first === 'schemas') return { name: 'schema', schema: second }
    if (first === 'settings') return { name: 'setting', setting: second }
    if (first === 'extensions') return { name: 'extension', extension: second }
  }
  if (segments.length === 4 && first === 'schemas' && third === 'tables' && fourth !== undefined)
    return { name: 'table', schema: second, table: fourth }
  return undefined
}

/** Decodes one path segment; undefined if it is not valid. */
function decoded(segment: string): string | undefined {
  try {
    const text = decodeURIComponent(segment)
    return text === '' || text.length > longestName || text.includes('\0') ? undefined : text
  } catch {
    return undefined
  }
}

export const schemaUri = (schema: string): string => `${scheme}schemas/${encodeURIComponent(schema)}`
export const tableUri = (schema: string, table: string): string =>
  `${schemaUri(schema)}/tables/${encodeURIComponent(table)}`
