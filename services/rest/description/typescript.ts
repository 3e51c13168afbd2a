/**
 * Prints the served schemas as a TypeScript type in the form that PostgREST clients use (`new
 * PostgrestClient<Database>`). Pure. The text compiles whatever the names in the database are: each is an identifier or
 * a quoted string, and comments contain none. Named types are included only if an included object uses them.
 */
import {
  type Column,
  type QualifiedName,
  type Relationship,
  type Routine,
  representationKey,
  type Table,
} from '../../schema-cache/types.ts'
import { type DataType, dataTypeOf } from './data-types.ts'
import { type Described, type DescribedSchema, resultOf } from './model.ts'

const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))
const literal = (text: string): string => JSON.stringify(text)

/** Lines of an object type. */
function object(members: readonly string[], indent: string): string {
  if (members.length === 0) return 'Record<never, never>'
  return `{\n${members.map(member => `${indent}  ${member}\n`).join('')}${indent}}`
}

/** A type that is written once, under its name. */
type NamedType = Extract<DataType, { kind: 'enum' | 'composite' }>
const nameOf = (type: NamedType): QualifiedName => (type.kind === 'enum' ? type.enum : type.composite)

class TypeWriter {
  readonly #described: Described
  readonly #relations: ReadonlyMap<string, Table>
  readonly #schemas: ReadonlySet<string>
  /** Named types used so far. */
  readonly #named = new Map<string, NamedType>()

  constructor(described: Described) {
    this.#described = described
    const tables = described.schemas.flatMap(schema => schema.tables)
    this.#relations = new Map(tables.map(table => [JSON.stringify([table.schema, table.name]), table]))
    this.#schemas = new Set(described.schemas.map(({ name }) => name))
  }

  text(): string {
    const relations = this.#described.schemas.map(schema => this.#relationsAndFunctions(schema))
    const attributes = this.#attributesOfNamed()
    const schemas = this.#described.schemas.map(({ name }, index) => {
      const parts = [...(relations[index] ?? []), ...this.#types(name, attributes)]
      return `  ${key(name)}: ${object(parts, '  ')}\n`
    })
    return (
      '/** The database as its REST service shows it. Made by the service; ask it again when the database has changed. */\n' +
      'export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[]\n\n' +
      `export type Database = {\n  __InternalSupabase: { PostgrestVersion: '14' }\n${schemas.join('')}}\n`
    )
  }

  /** The named types. Writing one type may add others. */
  #attributesOfNamed(): ReadonlyMap<NamedType, readonly string[]> {
    const written = new Map<NamedType, readonly string[]>()
    // Iteration over a map includes entries added during the iteration.
    for (const type of this.#named.values()) {
      const attributes = type.kind === 'composite' ? type.attributes : []
      written.set(
        type,
        attributes.map(one => `${key(one.name)}: ${this.#type(one.type)} | null`),
      )
    }
    return written
  }

  #types(schema: string, attributes: ReadonlyMap<NamedType, readonly string[]>): string[] {
    const indent = '    '
    const named = [...this.#named.values()].filter(type => nameOf(type).schema === schema)
    const sorted = named.sort((one, other) => (nameOf(one).name < nameOf(other).name ? -1 : 1))
    const enums = sorted.flatMap(type =>
      type.kind === 'enum' ? [`${key(type.enum.name)}: ${type.labels.map(literal).join(' | ') || 'never'}`] : [],
    )
    const composites = sorted.flatMap(type =>
      type.kind === 'composite'
        ? [`${key(type.composite.name)}: ${object(attributes.get(type) ?? [], `${indent}  `)}`]
        : [],
    )
    return [`Enums: ${object(enums, indent)}`, `CompositeTypes: ${object(composites, indent)}`]
  }

  #relationsAndFunctions(schema: DescribedSchema): string[] {
    const { tables } = schema
    const indent = '    '
    const relations = (isView: boolean) =>
      object(
        tables.filter(table => table.isView === isView).map(table => `${key(table.name)}: ${this.#relation(table)}`),
        indent,
      )
    return [
      `Tables: ${relations(false)}`,
      `Views: ${relations(true)}`,
      `Functions: ${object(this.#functions(schema), indent)}`,
    ]
  }

  /** A type by its name. */
  #type(written: string): string {
    return this.#written(dataTypeOf(this.#described.catalog, written))
  }

  #written(type: DataType): string {
    switch (type.kind) {
      case 'boolean':
        return 'boolean'
      case 'json':
        return 'Json'
      case 'void':
        return 'undefined'
      case 'integer':
      case 'number':
        return 'number'
      case 'string':
        return 'string'
      case 'array': {
        const element = this.#written(type.of)
        return element.includes(' ') ? `(${element})[]` : `${element}[]`
      }
      case 'enum':
        return this.#schemas.has(type.enum.schema)
          ? this.#member(type, 'Enums')
          : type.labels.map(literal).join(' | ') || 'never'
      case 'composite':
        if (this.#schemas.has(type.composite.schema)) return this.#member(type, 'CompositeTypes')
        return `{ ${type.attributes.map(one => `${key(one.name)}: ${this.#type(one.type)} | null`).join('; ')} }`
      case 'row':
        return this.#rowOf(type.relation) ?? 'Record<string, unknown>'
      case 'record':
        return 'Record<string, unknown>'
    }
  }

  #member(type: NamedType, place: 'Enums' | 'CompositeTypes'): string {
    const { schema, name } = nameOf(type)
    const same = JSON.stringify([schema, name])
    if (!this.#named.has(same)) this.#named.set(same, type)
    return member({ schema, name }, place)
  }

  #rowOf(relation: QualifiedName): string | undefined {
    const table = this.#relations.get(JSON.stringify([relation.schema, relation.name]))
    return table && `${member(table, table.isView ? 'Views' : 'Tables')}['Row']`
  }

  /** If a domain has a cast function, its JSON type is unknown. */
  #column({ type, baseType }: Column): string {
    const { representations } = this.#described.cache
    return representations.has(representationKey(type, 'json')) ? 'Json' : this.#type(baseType)
  }

  #relation(table: Table): string {
    const indent = '      '
    const columns = [...table.columns.values()]
    const typed = (column: Column) => `${this.#column(column)}${column.nullable ? ' | null' : ''}`
    const row = [
      ...columns.map(column => `${key(column.name)}: ${typed(column)}`),
      // Clients expect computed columns here, although `*` does not select them.
      ...this.#computedColumns(table),
    ]
    const written = (isOptional: (column: Column) => boolean) =>
      columns.map(column =>
        column.generated
          ? `${key(column.name)}?: never`
          : `${key(column.name)}${isOptional(column) ? '?' : ''}: ${typed(column)}`,
      )
    const insert = written(column => column.nullable || column.default !== null)
    const parts = [
      `Row: ${object(row, `${indent}  `)}`,
      ...(table.insertable || table.updatable || !table.isView
        ? [
            `Insert: ${object(insert, `${indent}  `)}`,
            `Update: ${object(
              written(() => true),
              `${indent}  `,
            )}`,
          ]
        : []),
      `Relationships: ${this.#relationships(table, `${indent}  `)}`,
    ]
    return object(parts, indent)
  }

  #relationships(table: Table, indent: string): string {
    const all = this.#described.cache.relationships.get(table.schema)?.get(table.name) ?? []
    const list = all.flatMap(one => this.#relationship(one))
    return list.length === 0 ? '[]' : `[\n${list.map(one => `${indent}  ${one},\n`).join('')}${indent}]`
  }

  /** Only the side with the foreign key: clients derive the other side from it. */
  #relationship(relationship: Relationship): string[] {
    if (relationship.kind !== 'keys') return []
    const { cardinality, source, target } = relationship
    if (cardinality.kind === 'many-to-many' || cardinality.kind === 'one-to-many') return []
    if (cardinality.kind === 'one-to-one' && cardinality.referenced) return []
    if (target.schema !== source.schema || this.#rowOf(target) === undefined) return []
    const names = (index: 0 | 1) => cardinality.columns.map(pair => literal(pair[index])).join(', ')
    return [
      `{ foreignKeyName: ${literal(cardinality.constraint)}; columns: [${names(0)}]; isOneToOne: ${cardinality.kind === 'one-to-one'}; ` +
        `referencedRelation: ${literal(target.name)}; referencedColumns: [${names(1)}] }`,
    ]
  }

  #functions(schema: DescribedSchema): string[] {
    const overloads = new Map<string, string[]>()
    const add = (name: string, text: string | undefined) => {
      if (text !== undefined) overloads.set(name, [...(overloads.get(name) ?? []), text])
    }
    for (const routine of schema.routines) add(routine.name, this.#function(routine))
    for (const table of schema.tables) {
      for (const one of this.#described.cache.relationships.get(table.schema)?.get(table.name) ?? []) {
        if (one.kind === 'computed' && one.function.schema === schema.name)
          add(one.function.name, this.#computedRelationship(one))
      }
    }
    return [...overloads].map(([name, texts]) => `${key(name)}: ${texts.join(' | ')}`)
  }

  #function(routine: Routine): string | undefined {
    const { parameters, returnsSet } = routine
    const [only] = parameters
    const isUnnamed = parameters.length === 1 && only?.name === ''
    // These clients send only JSON bodies.
    if (isUnnamed && only.type !== 'json' && only.type !== 'jsonb') return undefined
    const named = parameters.map(one => `${key(one.name)}${one.required ? '' : '?'}: ${this.#type(one.type)}`)
    const argumentsType = isUnnamed
      ? 'Record<string, unknown>'
      : named.length === 0
        ? 'Record<PropertyKey, never>'
        : `{ ${named.join('; ')} }`
    const result = resultOf(this.#described.catalog, routine)
    const one =
      result.kind === 'columns'
        ? `{ ${result.columns.map(column => `${key(column.name)}: ${this.#type(column.type)}`).join('; ')} }`
        : this.#type(result.type)
    const plain = one.includes(' ') && !one.startsWith('{') ? `(${one})` : one
    const type = result.kind === 'type' ? dataTypeOf(this.#described.catalog, result.type) : undefined
    const isRow =
      type?.kind === 'row' && type.relation.schema === routine.schema && this.#rowOf(type.relation) !== undefined
    const options = isRow ? `; SetofOptions: ${setOf('*', type.relation.name, !returnsSet, returnsSet)}` : ''
    return `{ Args: ${argumentsType}; Returns: ${returnsSet ? `${plain}[]` : one}${options} }`
  }

  /** Functions that convert a row to a value. */
  #computedColumns(table: Table): string[] {
    const { cache, catalog } = this.#described
    const computed = cache.computedColumns.get(table.schema)?.get(table.name) ?? []
    const relationships = cache.relationships.get(table.schema)?.get(table.name) ?? []
    const isEmbedded = (name: string) =>
      relationships.some(one => one.kind === 'computed' && one.function.name === name)
    return catalog.ofRow(table).flatMap(({ name, type }) => {
      const isOwn = computed.includes(name) && !table.columns.has(name) && !isEmbedded(name) && type !== 'void'
      return isOwn ? [`${key(name)}: ${this.#type(type)} | null`] : []
    })
  }

  /** A function from a row to rows. Clients can embed it. */
  #computedRelationship({ source, target, toOne }: Extract<Relationship, { kind: 'computed' }>): string | undefined {
    const [from, to] = [this.#rowOf(source), this.#rowOf(target)]
    if (from === undefined || to === undefined || source.schema !== target.schema) return undefined
    return `{ Args: { '': ${from} }; Returns: ${to}${toOne ? '' : '[]'}; SetofOptions: ${setOf(source.name, target.name, toOne, true)} }`
  }
}

const setOf = (from: string, to: string, isOneToOne: boolean, isSetofReturn: boolean): string =>
  `{ from: ${literal(from)}; to: ${literal(to)}; isOneToOne: ${isOneToOne}; isSetofReturn: ${isSetofReturn} }`

const member = ({ schema, name }: QualifiedName, place: 'Tables' | 'Views' | 'Enums' | 'CompositeTypes'): string =>
  `Database[${literal(schema)}][${literal(place)}][${literal(name)}]`

/** The text of a module that exports `Database` and `Json`. */
export const renderTypeScript = (described: Described): string => new TypeWriter(described).text()
