/** What a description is made of: the schemas as somebody may see them, and what is known of them. */
import type { Routine, SchemaCache, Table } from '../../schema-cache/types.ts'
import { type Catalog, signatureOf } from './catalog.ts'

/** What of one schema is told. */
export type DescribedSchema = {
  readonly name: string
  readonly tables: readonly Table[]
  readonly routines: readonly Routine[]
}

export type Described = {
  readonly cache: Pick<SchemaCache, 'relationships' | 'representations' | 'computedColumns'>
  readonly catalog: Catalog
  readonly schemas: readonly DescribedSchema[]
}

/** What a function returns: a type, or columns of its own. */
type Result =
  | { readonly kind: 'type'; readonly type: string }
  | { readonly kind: 'columns'; readonly columns: readonly { readonly name: string; readonly type: string }[] }

export function resultOf({ returned }: Catalog, { schema, name, parameters }: Routine): Result {
  const { type = 'record', columns = [] } = returned.get(signatureOf(schema, name, parameters)) ?? {}
  return type === 'record' && columns.length > 0 ? { kind: 'columns', columns } : { kind: 'type', type }
}
