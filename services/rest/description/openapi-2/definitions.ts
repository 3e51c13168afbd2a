/**
 * Prints tables and function arguments as object schemas. The descriptions of columns contain primary and foreign keys.
 */
import type { Column, Relationship, Routine, SchemaCache, Table } from '../../../schema-cache/types.ts'
import { describeDefault, unqualify } from '../data-types.ts'
import { type ObjectSchema, type Property, unlessEmpty } from './swagger.ts'
import { describeType } from './types.ts'

type Target = { readonly table: string; readonly column: string }

const isForeignKey = (relationship: Relationship) =>
  relationship.kind === 'keys' &&
  (relationship.cardinality.kind === 'many-to-one' ||
    (relationship.cardinality.kind === 'one-to-one' && !relationship.cardinality.referenced))

/** The target of each single-column foreign key within the schema. A table takes precedence over a view. */
function foreignKeys(table: Table, relationships: SchemaCache['relationships']): ReadonlyMap<string, Target> {
  const found = new Map<string, Target & { isView: boolean }>()
  for (const relationship of relationships.get(table.schema)?.get(table.name) ?? []) {
    if (relationship.kind !== 'keys' || !isForeignKey(relationship)) continue
    const { target, targetIsView, cardinality } = relationship
    if (target.schema !== table.schema || cardinality.kind === 'many-to-many') continue
    const [pair, ...others] = cardinality.columns
    if (pair === undefined || others.length > 0) continue
    const known = found.get(pair[0])
    if (known !== undefined && (targetIsView || !known.isView)) continue
    found.set(pair[0], { table: target.name, column: pair[1], isView: targetIsView })
  }
  return found
}

/** A column's comment, then its keys. The tags are for programs that read the document. */
function describeColumn(column: Column, isPrimaryKey: boolean, target: Target | undefined): string | undefined {
  const notes: string[] = []
  if (isPrimaryKey) notes.push('This is a Primary Key.<pk/>')
  if (target !== undefined) {
    const { table, column: name } = target
    notes.push(`This is a Foreign Key to \`${table}.${name}\`.<fk table='${table}' column='${name}'/>`)
  }
  if (notes.length === 0) return column.description ?? undefined
  const note = ['Note:', ...notes].join('\n')
  return column.description === null ? note : `${column.description}\n\n${note}`
}

function columnProperty(table: Table, column: Column, target: Target | undefined): Property {
  return {
    ...describeType(column.baseType),
    description: describeColumn(column, table.primaryKey.includes(column.name), target),
    default: describeDefault(column.baseType, column.default),
    enum: unlessEmpty(column.enumValues),
    maxLength: column.maximumLength ?? undefined,
  }
}

function objectSchema(description: string | null, properties: [string, Property][], required: string[]): ObjectSchema {
  return {
    type: 'object',
    description: description ?? undefined,
    properties: properties.length === 0 ? undefined : Object.fromEntries(properties),
    required: unlessEmpty(required),
  }
}

/** A row of a table. */
export function tableDefinition(table: Table, relationships: SchemaCache['relationships']): ObjectSchema {
  const targets = foreignKeys(table, relationships)
  const columns = [...table.columns.values()]
  return objectSchema(
    table.description,
    columns.map(column => [column.name, columnProperty(table, column, targets.get(column.name))]),
    columns.filter(column => !column.nullable).map(column => column.name),
  )
}

/** The JSON object that a POST sends as a function's arguments. Types in `searchPath` have no schema. */
export function argumentsDefinition(routine: Routine, searchPath: ReadonlySet<string>): ObjectSchema {
  return objectSchema(
    routine.description,
    routine.parameters.map(({ name, type }) => [name, describeType(unqualify(type, searchPath))]),
    routine.parameters.filter(({ required }) => required).map(({ name }) => name),
  )
}
