/** A model of the served schemas. Other modules print it as OpenAPI 2.0, OpenAPI 3.1 and TypeScript types. */
import type { Column, Routine, SchemaCache, Table } from '../../schema-cache/types.ts'
import { type Catalog, signatureOf } from './catalog.ts'

/** One schema, with the objects that the role may see. */
export type DescribedSchema = {
  readonly name: string
  /** The schema's comment: a title, then a description. */
  readonly comment: string | null
  readonly tables: readonly Table[]
  /** Overloads of a function are adjacent. */
  readonly routines: readonly Routine[]
}

/** The input for an OpenAPI document of any version. */
export type ApiDescription = {
  readonly schema: DescribedSchema
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations'>
  /** `openapi-server-proxy-uri`: the configuration has checked that it is an absolute http or https URI. */
  readonly proxyUri: string | undefined
  /** `openapi-security-active`: whether the document declares that requests need a token. */
  readonly securityActive: boolean
  /** The version of the service. */
  readonly version: string
}

/** The input for TypeScript types. */
export type Described = {
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations' | 'computedColumns'>
  readonly catalog: Catalog
  readonly schemas: readonly DescribedSchema[]
}

/**
 * The comment's first line is the title or summary. The rest, without the line breaks before it, is the description.
 * Null without a comment. Source: PostgREST docs "OpenAPI".
 */
export function splitComment(comment: string | null): { summary: string; description: string } | null {
  if (comment === null) return null
  const end = comment.indexOf('\n')
  if (end < 0) return { summary: comment, description: '' }
  return { summary: comment.slice(0, end), description: comment.slice(end).replace(/^\n+/, '') }
}

const ownParameters = new Set(['select', 'order', 'limit', 'offset', 'columns', 'on_conflict', 'and', 'or'])

/** The columns that a query parameter can filter. Reserved parameter names are excluded. */
export const filteredColumns = (table: Table): Column[] =>
  [...table.columns.values()].filter(({ name }) => !ownParameters.has(name))

/** A function's result: a type, or columns of its own. */
type Result =
  | { readonly kind: 'type'; readonly type: string }
  | { readonly kind: 'columns'; readonly columns: readonly { readonly name: string; readonly type: string }[] }

export function resultOf({ returned }: Catalog, { schema, name, parameters }: Routine): Result {
  const { type = 'record', columns = [] } = returned.get(signatureOf(schema, name, parameters)) ?? {}
  return type === 'record' && columns.length > 0 ? { kind: 'columns', columns } : { kind: 'type', type }
}
