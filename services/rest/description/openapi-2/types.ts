/** What a type of Postgres is called in a document of OpenAPI 2.0. */
import { dataTypeOf, noTypes } from '../data-types.ts'
import type { DataType, Items } from './swagger.ts'

/** The specification knows two formats of integers, and tools refuse others. The format of any other type is its own name. */
const integerFormats: ReadonlyMap<string, string> = new Map([
  ['smallint', 'int32'],
  ['integer', 'int32'],
  ['bigint', 'int64'],
])

/** `type` as Postgres formats it: `integer[]`, `character varying`, `test.my_enum`. Undefined: any JSON. */
export function typeOf(type: string): DataType | undefined {
  const { kind } = dataTypeOf(noTypes, type)
  if (kind === 'json') return undefined
  return kind === 'boolean' || kind === 'integer' || kind === 'number' || kind === 'array' ? kind : 'string'
}

export const formatOf = (type: string): string => integerFormats.get(type) ?? type

/** The type of an array's elements. Postgres names an array of arrays like a plain one. */
export const elementType = (type: string): string => type.replace(/\[\]$/, '')

/** How a property of this type is described. */
export function describeType(type: string): { type?: DataType; format: string; items?: Items } {
  const described = { type: typeOf(type), format: formatOf(type) }
  return described.type === 'array' ? { ...described, items: { type: typeOf(elementType(type)) } } : described
}
