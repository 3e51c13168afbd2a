/** Resolves a request's fields: types, and the conversions of domains. */

import { type QualifiedName, representationKey, type SchemaCache } from '../../schema-cache/types.ts'
import type { Field } from '../parse/types.ts'
import type { PlannedField } from './types.ts'

/** Resolves fields of a relation. `isReturned`: a function returns the relation's rows. */
export function fieldResolver(
  cache: SchemaCache,
  relation: QualifiedName,
  isReturned = false,
): (field: Field) => PlannedField {
  const columns = cache.tables.get(relation.schema)?.get(relation.name)?.columns
  const computed = cache.computedColumns.get(relation.schema)?.get(relation.name)
  const computedOf = (name: string): PlannedField['computed'] =>
    computed?.includes(name) ? { function: { schema: relation.schema, name }, of: relation } : undefined
  return ({ name, path }) => {
    const column = columns?.get(name)
    const type = column?.type
    const representation = (source: string, target: string) =>
      cache.representations.get(representationKey(source, target))?.function
    return {
      name,
      path,
      type,
      baseType: column?.baseType,
      toOutput: type === undefined || path.length > 0 ? undefined : representation(type, 'json'),
      fromText: type === undefined || path.length > 0 ? undefined : representation('text', type),
      computed: isReturned && columns !== undefined && column === undefined ? computedOf(name) : undefined,
    }
  }
}
