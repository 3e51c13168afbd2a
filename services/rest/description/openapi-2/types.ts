/** Names of Postgres types in an OpenAPI 2.0 document. */
import { dataTypeOf, noTypes } from '../data-types.ts'
import type { DataType, Items } from './swagger.ts'

/**
 * The specification has two integer formats, and tools refuse other integer formats. For any other type, the format is
 * the type's name.
 */
const integerFormats: ReadonlyMap<string, string> = new Map([
  ['smallint', 'int32'],
  ['integer', 'int32'],
  ['bigint', 'int64'],
])

/** `type`: as Postgres formats it, such as `integer[]`, `character varying`, `test.my_enum`. Undefined: any JSON. */
export function typeOf(type: string): DataType | undefined {
  const { kind } = dataTypeOf(noTypes, type)
  if (kind === 'json') return undefined
  return kind === 'boolean' || kind === 'integer' || kind === 'number' || kind === 'array' ? kind : 'string'
}

export const formatOf = (type: string): string => integerFormats.get(type) ?? type

/** The type of an array's elements. Postgres gives nested arrays the same name as plain arrays. */
export const elementType = (type: string): string => type.replace(/\[\]$/, '')

/** The description of a property of this type. */
export function describeType(type: string): { type?: DataType; format: string; items?: Items } {
  const described = { type: typeOf(type), format: formatOf(type) }
  return described.type === 'array' ? { ...described, items: { type: typeOf(elementType(type)) } } : described
}
