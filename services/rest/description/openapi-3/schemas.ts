/** Prints types, rows and arguments as OpenAPI 3.1 schemas, which are JSON Schema 2020-12. Pure. */
import { type Column, type Routine, representationKey, type Table } from '../../../schema-cache/types.ts'
import type { Catalog } from '../catalog.ts'
import { type DataType, dataTypeOf, describeDefault } from '../data-types.ts'
import type { ApiDescription } from '../model.ts'

/** JSON for the document. */
export type Schema = Readonly<Record<string, unknown>>

const formats: Readonly<Record<string, string>> = {
  smallint: 'int32',
  integer: 'int32',
  bigint: 'int64',
  real: 'float',
  'double precision': 'double',
  uuid: 'uuid',
  date: 'date',
}

/**
 * A name that is allowed as a component key (OpenAPI 3.1, section 4.8.7). Other characters are replaced by their code.
 */
export const componentName = (...parts: string[]): string =>
  parts
    .map(part => part.replace(/[^A-Za-z0-9-]/gu, one => (one === '_' ? one : `.${one.codePointAt(0)?.toString(16)}.`)))
    .join('..')

export const schemaReference = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` })

/** The input and output schemas of a relation. */
export const rowName = ({ name }: Pick<Table, 'name'>): string => componentName(name)
export const insertName = ({ name }: Pick<Table, 'name'>): string => componentName(name, 'insert')
export const updateName = ({ name }: Pick<Table, 'name'>): string => componentName(name, 'update')

function plain(type: DataType, written: (name: string) => Schema, rows: ReadonlySet<string>): Schema {
  switch (type.kind) {
    case 'boolean':
      return { type: 'boolean' }
    case 'json':
      return {}
    case 'void':
      return { type: 'null' }
    case 'integer':
    case 'number':
    case 'string': {
      const format = formats[type.type]
      return {
        type: type.kind,
        ...(format === undefined ? { description: `Postgres: ${type.type}` } : { format }),
      }
    }
    case 'array':
      return { type: 'array', items: orNull(plain(type.of, written, rows)) }
    case 'enum':
      return { type: 'string', enum: type.labels }
    case 'composite':
      return {
        type: 'object',
        properties: Object.fromEntries(type.attributes.map(one => [one.name, orNull(written(one.type))])),
      }
    case 'row':
      return rows.has(JSON.stringify([type.relation.schema, type.relation.name]))
        ? schemaReference(rowName(type.relation))
        : { type: 'object' }
    case 'record':
      return { type: 'object' }
  }
}

function orNull(schema: Schema): Schema {
  if (typeof schema.type !== 'string') return '$ref' in schema ? { oneOf: [schema, { type: 'null' }] } : schema
  const { enum: values } = schema
  return {
    ...schema,
    type: [schema.type, 'null'],
    ...(Array.isArray(values) ? { enum: [...values, null] } : {}),
  }
}

export class SchemaWriter {
  readonly #catalog: Catalog
  readonly #cache: ApiDescription['cache']
  readonly #rows: ReadonlySet<string>

  constructor({ schema, cache }: ApiDescription, catalog: Catalog) {
    this.#catalog = catalog
    this.#cache = cache
    this.#rows = new Set(schema.tables.map(({ schema, name }) => JSON.stringify([schema, name])))
  }

  /** The schema of a named type. */
  readonly type = (written: string): Schema => plain(dataTypeOf(this.#catalog, written), this.type, this.#rows)

  #column(table: Table, column: Column): Schema {
    const { representations } = this.#cache
    const isConverted = representations.has(representationKey(column.type, 'json'))
    const type = isConverted ? {} : this.type(column.baseType)
    const isKey = table.primaryKey.includes(column.name)
    const notes = [column.description, isKey ? 'Part of the primary key.' : null, type.description]
    const description = notes.filter(note => typeof note === 'string').join('\n\n')
    const initial = isConverted ? undefined : describeDefault(column.baseType, column.default)
    const isConstant = initial !== undefined && !/\w\(/.test(column.default ?? '')
    return {
      ...(column.nullable ? orNull(type) : type),
      ...(description === '' ? {} : { description }),
      ...(column.maximumLength === null ? {} : { maxLength: column.maximumLength }),
      ...(isConstant ? { default: initial } : {}),
    }
  }

  /** A relation's columns: all columns for reading, or only writable columns. */
  #object(table: Table, columns: readonly Column[], required: readonly Column[]): Schema {
    const description = table.description ?? undefined
    return {
      type: 'object',
      ...(description === undefined ? {} : { description }),
      properties: Object.fromEntries(columns.map(column => [column.name, this.#column(table, column)])),
      ...(required.length === 0 ? {} : { required: required.map(({ name }) => name) }),
    }
  }

  /** The schemas for rows that clients read and, if the relation is writable, insert and update. */
  ofTable(table: Table): [name: string, schema: Schema][] {
    const columns = [...table.columns.values()]
    const writable = columns.filter(({ generated }) => !generated)
    const needed = writable.filter(column => !column.nullable && column.default === null)
    return [
      [rowName(table), this.#object(table, columns, [])],
      ...(table.insertable ? [[insertName(table), this.#object(table, writable, needed)] as [string, Schema]] : []),
      ...(table.updatable ? [[updateName(table), this.#object(table, writable, [])] as [string, Schema]] : []),
    ]
  }

  /** The JSON object that a POST sends as a function's arguments. For one unnamed parameter, the body itself. */
  ofArguments({ parameters }: Routine): Schema {
    const [only] = parameters
    if (parameters.length === 1 && only?.name === '') return this.type(only.type)
    const required = parameters.filter(one => one.required)
    return {
      type: 'object',
      properties: Object.fromEntries(parameters.map(({ name, type }) => [name, orNull(this.type(type))])),
      ...(required.length === 0 ? {} : { required: required.map(({ name }) => name) }),
      additionalProperties: false,
    }
  }
}
