/** What a type of Postgres is called in an OpenAPI 2.0 document, and what of a column's default can be said in one. */
import type { DataType, Items } from './swagger.ts'

/** Types whose name does not already say it; json and jsonb hold anything, and so have no type. */
const dataTypes: ReadonlyMap<string, DataType | undefined> = new Map<string, DataType | undefined>([
  ['boolean', 'boolean'],
  ['smallint', 'integer'],
  ['integer', 'integer'],
  ['bigint', 'integer'],
  ['numeric', 'number'],
  ['real', 'number'],
  ['double precision', 'number'],
  ['json', undefined],
  ['jsonb', undefined],
])

/** The specification knows two formats of integers, and tools refuse others; any other type's format is its own name. */
const integerFormats: ReadonlyMap<string, string> = new Map([
  ['smallint', 'int32'],
  ['integer', 'int32'],
  ['bigint', 'int64'],
])

/** `type` as Postgres formats it: `integer[]`, `character varying`, `test.my_enum`. Undefined: any JSON. */
export function dataTypeOf(type: string): DataType | undefined {
  if (dataTypes.has(type)) return dataTypes.get(type)
  return type.endsWith('[]') ? 'array' : 'string'
}

export const formatOf = (type: string): string => integerFormats.get(type) ?? type

/** The type of an array's elements; an array of arrays has the same name as a plain one. */
export const elementType = (type: string): string => type.replace(/\[\]$/, '')

/** How a property of this type is described. */
export function describeType(type: string): { type?: DataType; format: string; items?: Items } {
  const described = { type: dataTypeOf(type), format: formatOf(type) }
  return described.type === 'array' ? { ...described, items: { type: dataTypeOf(elementType(type)) } } : described
}

/** A string constant, with an E where backslashes in it are doubled, and the cast that Postgres prints after it. */
const stringConstant = /^(E?)'((?:[^']|'')*)'(?:::[^']+)?$/

function constantOf(expression: string): string | undefined {
  const [, escaped, quoted] = stringConstant.exec(expression) ?? []
  const text = quoted?.replaceAll("''", "'")
  return escaped === 'E' ? text?.replaceAll('\\\\', '\\') : text
}

const numberConstant = /^-?\d+(?:\.\d+)?$/
/** As many decimal digits as a double holds whatever they are. */
const exactDigits = 15

/**
 * A default's expression as a value: constants of boolean and number columns as such; of string columns the constant, or else the expression's
 * text. Nothing where a value cannot be told (`nextval(...)` of a number), would not be exact, or is of json or an array.
 */
export function describeDefault(type: string, expression: string | null): string | number | boolean | undefined {
  if (expression === null) return undefined
  const text = constantOf(expression) ?? expression
  switch (dataTypeOf(type)) {
    case 'string':
      return text
    case 'boolean':
      return text === 'true' || text === 'false' ? text === 'true' : undefined
    case 'integer':
    case 'number':
      return numberConstant.test(text) && text.replace(/\D/g, '').length <= exactDigits ? Number(text) : undefined
    default:
      return undefined
  }
}

const qualified = /^(?:"((?:[^"]|"")+)"|([^".\s]+))\.(.+)$/s

/** A type's name without its schema where that is one of `schemas`, as Postgres prints it for who has those in the search path. */
export function unqualify(type: string, schemas: ReadonlySet<string>): string {
  const [, quoted, plain, rest] = qualified.exec(type) ?? []
  const schema = quoted?.replaceAll('""', '"') ?? plain
  return rest !== undefined && schema !== undefined && schemas.has(schema) ? rest : type
}

/** A type's name without its schema, whichever it is. */
export const withoutSchema = (type: string): string => qualified.exec(type)?.[3] ?? type
