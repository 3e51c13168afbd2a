/** What is described of the served schemas: the model that the documents of OpenAPI 2.0 and 3.1 and the types of TypeScript are printed from. */
import type { Column, Routine, SchemaCache, Table } from '../../schema-cache/types.ts'
import { type Catalog, signatureOf } from './catalog.ts'

/** One schema, as far as the role may see it. */
export type DescribedSchema = {
  readonly name: string
  /** The comment on the schema: a title, then a description. */
  readonly comment: string | null
  readonly tables: readonly Table[]
  /** Overloads of a function are together. */
  readonly routines: readonly Routine[]
}

/** What a document of OpenAPI is printed from, whatever its version. */
export type ApiDescription = {
  readonly schema: DescribedSchema
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations'>
  /** `openapi-server-proxy-uri`: an absolute http or https URI, as the configuration has checked. */
  readonly proxyUri: string | undefined
  /** `openapi-security-active`: whether the document says that requests carry a token. */
  readonly securityActive: boolean
  /** Of the service. */
  readonly version: string
}

/** What types are printed from. */
export type Described = {
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations' | 'computedColumns'>
  readonly catalog: Catalog
  readonly schemas: readonly DescribedSchema[]
}

/**
 * A comment's first line as title or summary, and what follows it, without the line breaks between the two; null without a comment.
 * Source: PostgREST docs "OpenAPI".
 */
export function splitComment(comment: string | null): { summary: string; description: string } | null {
  if (comment === null) return null
  const end = comment.indexOf('\n')
  if (end < 0) return { summary: comment, description: '' }
  return { summary: comment.slice(0, end), description: comment.slice(end).replace(/^\n+/, '') }
}

const ownParameters = new Set(['select', 'order', 'limit', 'offset', 'columns', 'on_conflict', 'and', 'or'])

/** The columns that a query parameter can filter: other names have a meaning of their own. */
export const filteredColumns = (table: Table): Column[] =>
  [...table.columns.values()].filter(({ name }) => !ownParameters.has(name))

/** What a function returns: a type, or columns of its own. */
type Result =
  | { readonly kind: 'type'; readonly type: string }
  | { readonly kind: 'columns'; readonly columns: readonly { readonly name: string; readonly type: string }[] }

export function resultOf({ returned }: Catalog, { schema, name, parameters }: Routine): Result {
  const { type = 'record', columns = [] } = returned.get(signatureOf(schema, name, parameters)) ?? {}
  return type === 'record' && columns.length > 0 ? { kind: 'columns', columns } : { kind: 'type', type }
}
