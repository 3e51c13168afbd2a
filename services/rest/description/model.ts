/** A model of the served schemas, from which OpenAPI 2.0 and 3.1 documents and TypeScript types are printed. */
import type { Column, Routine, SchemaCache, Table } from '../../schema-cache/types.ts'
import { type Catalog, signatureOf } from './catalog.ts'

/** One schema, as far as the role may see it. */
export type DescribedSchema = {
  readonly name: string
  /** The schema's comment: a title, then a description. */
  readonly comment: string | null
  readonly tables: readonly Table[]
  /** Overloads of a function are adjacent. */
  readonly routines: readonly Routine[]
}

/** Input of an OpenAPI document of any version. */
export type ApiDescription = {
  readonly schema: DescribedSchema
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations'>
  /** `openapi-server-proxy-uri`: an absolute http or https URI, as the configuration has checked. */
  readonly proxyUri: string | undefined
  /** `openapi-security-active`: whether the document requires a token. */
  readonly securityActive: boolean
  /** Of the service. */
  readonly version: string
}

/** Input of TypeScript types. */
export type Described = {
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations' | 'computedColumns'>
  readonly catalog: Catalog
  readonly schemas: readonly DescribedSchema[]
}

/**
 * A comment's first line as title or summary, and the rest without the line breaks between the two; null without a
 * comment. Source: PostgREST docs "OpenAPI".
 */
export function splitComment(comment: string | null): { summary: string; description: string } | null {
  if (comment === null) return null
  const end = comment.indexOf('\n')
  if (end < 0) return { summary: comment, description: '' }
  return { summary: comment.slice(0, end), description: comment.slice(end).replace(/^\n+/, '') }
}

const ownParameters = new Set(['select', 'order', 'limit', 'offset', 'columns', 'on_conflict', 'and', 'or'])

/** The columns that a query parameter can filter: other names are reserved. */
export const filteredColumns = (table: Table): Column[] =>
  [...table.columns.values()].filter(({ name }) => !ownParameters.has(name))

/** A function's result: a type, or its own columns. */
type Result =
  | { readonly kind: 'type'; readonly type: string }
  | { readonly kind: 'columns'; readonly columns: readonly { readonly name: string; readonly type: string }[] }

export function resultOf({ returned }: Catalog, { schema, name, parameters }: Routine): Result {
  const { type = 'record', columns = [] } = returned.get(signatureOf(schema, name, parameters)) ?? {}
  return type === 'record' && columns.length > 0 ? { kind: 'columns', columns } : { kind: 'type', type }
}
