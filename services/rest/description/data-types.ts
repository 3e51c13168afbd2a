/**
 * Converts a Postgres type to the JSON type that row_to_json writes, and parses type names and defaults. Pure.
 * User-defined types are read from the catalog.
 */
import type { QualifiedName } from '../../schema-cache/types.ts'
import type { Attribute, Catalog } from './catalog.ts'

export type DataType =
  | { readonly kind: 'boolean' | 'json' | 'void' }
  /** `type`: which Postgres type it is. */
  | { readonly kind: 'integer' | 'number' | 'string'; readonly type: string }
  | { readonly kind: 'array'; readonly of: DataType }
  | { readonly kind: 'enum'; readonly enum: QualifiedName; readonly labels: readonly string[] }
  | { readonly kind: 'composite'; readonly composite: QualifiedName; readonly attributes: readonly Attribute[] }
  | { readonly kind: 'row'; readonly relation: QualifiedName }
  /** Columns that are unknown until the statement runs. */
  | { readonly kind: 'record' }

const integers = new Set(['smallint', 'integer', 'bigint'])
const numbers = new Set(['numeric', 'real', 'double precision'])

/** For a description without a catalog: every user-defined type is a string. */
export const noTypes: Pick<Catalog, 'types'> = { types: new Map() }

/** The maximum levels of domains that are based on other domains. */
const maximumDepth = 64

/** `type`: as `format_type` writes it with an empty search_path. */
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

/** A string constant: has the prefix E if it contains escaped backslashes. Postgres's cast follows. */
const stringConstant = /^(E?)'((?:[^']|'')*)'(?:::[^']+)?$/

function constantOf(expression: string): string | undefined {
  const [, escaped, quoted] = stringConstant.exec(expression) ?? []
  const text = quoted?.replaceAll("''", "'")
  return escaped === 'E' ? text?.replaceAll('\\\\', '\\') : text
}

const numberConstant = /^-?\d+(?:\.\d+)?$/
/** How many decimal digits a double always represents exactly. */
const exactDigits = 15

/**
 * Returns a default's expression as a value. For boolean and number columns: the constant. For string columns: the
 * constant, or else the expression's text. Undefined for a value that is not constant (`nextval(...)` of a number), not
 * exact, or of json or an array.
 */
export function describeDefault(type: string, expression: string | null): string | number | boolean | undefined {
  if (expression === null) return undefined
  const text = constantOf(expression) ?? expression
  switch (dataTypeOf(noTypes, type).kind) {
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

/**
 * Returns a type's name without its schema if `schemas` has the schema. Postgres prints the same if these schemas are
 * the search path.
 */
export function unqualify(type: string, schemas: ReadonlySet<string>): string {
  const [, quoted, plain, rest] = qualified.exec(type) ?? []
  const schema = quoted?.replaceAll('""', '"') ?? plain
  return rest !== undefined && schema !== undefined && schemas.has(schema) ? rest : type
}

/** A type's name without its schema. */
export const withoutSchema = (type: string): string => qualified.exec(type)?.[3] ?? type
