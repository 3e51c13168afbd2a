/** What a value of a type of Postgres is in JSON, as row_to_json writes it. Pure; the types' own names come from the catalog. */
import type { QualifiedName } from '../../schema-cache/types.ts'
import type { Attribute, Catalog } from './catalog.ts'

export type DataType =
  | { readonly kind: 'boolean' | 'json' | 'void' }
  /** `type` says which of Postgres's. */
  | { readonly kind: 'integer' | 'number' | 'string'; readonly type: string }
  | { readonly kind: 'array'; readonly of: DataType }
  | { readonly kind: 'enum'; readonly enum: QualifiedName; readonly labels: readonly string[] }
  | { readonly kind: 'composite'; readonly composite: QualifiedName; readonly attributes: readonly Attribute[] }
  | { readonly kind: 'row'; readonly relation: QualifiedName }
  /** Columns that nobody knows before. */
  | { readonly kind: 'record' }

const integers = new Set(['smallint', 'integer', 'bigint'])
const numbers = new Set(['numeric', 'real', 'double precision'])

/** A domain may be of another domain; more than so many is a circle that Postgres does not allow. */
const maximumDepth = 64

/** `type` as `format_type` writes it with an empty search_path. */
export function dataTypeOf(catalog: Pick<Catalog, 'types'>, type: string, depth = 0): DataType {
  if (type.endsWith('[]')) return { kind: 'array', of: dataTypeOf(catalog, type.slice(0, -2), depth) }
  const named = catalog.types.get(type)
  if (named !== undefined) {
    const { kind } = named
    switch (kind) {
      case 'domain':
        return depth < maximumDepth ? dataTypeOf(catalog, named.base, depth + 1) : { kind: 'json' }
      case 'enum':
        return { kind, enum: { schema: named.schema, name: named.name }, labels: named.labels }
      case 'composite':
        return { kind, composite: { schema: named.schema, name: named.name }, attributes: named.attributes }
      case 'row':
        return { kind, relation: { schema: named.schema, name: named.name } }
    }
  }
  if (type === 'boolean') return { kind: 'boolean' }
  if (type === 'json' || type === 'jsonb') return { kind: 'json' }
  if (type === 'void') return { kind: 'void' }
  if (type === 'record') return { kind: 'record' }
  if (integers.has(type)) return { kind: 'integer', type }
  if (numbers.has(type)) return { kind: 'number', type }
  return { kind: 'string', type }
}
