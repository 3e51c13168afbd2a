/** What a question about the schema is answered with: schemas, a list of tables, or tables with their columns. Pure. */
import { suggestion } from '../catalogue/names.ts'
import type { Overview, Relation } from '../catalogue/relations.ts'

export type SchemaQuestion = {
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly vectorsOnly: boolean
  readonly includePartitions: boolean
  readonly isSearch: boolean
}

export type SchemaChoice =
  | { readonly kind: 'summary'; readonly relations: readonly Relation[] }
  /** To be searched, or too many to show their columns. */
  | { readonly kind: 'list'; readonly relations: readonly Relation[] }
  | { readonly kind: 'columns'; readonly relations: readonly Relation[] }
  | { readonly kind: 'unknown'; readonly problem: string }

/** With more than these, columns are shown only of what is named. */
const mostWithColumns = 10

const isSystemSchema = (name: string): boolean => name === 'information_schema' || name.startsWith('pg_')

export function chooseRelations(overview: Overview, question: SchemaQuestion): SchemaChoice {
  const { schema, table, vectorsOnly, includePartitions, isSearch } = question
  if (schema !== undefined && !overview.schemas.some(({ name }) => name === schema)) {
    const names = overview.schemas.map(({ name }) => name)
    return { kind: 'unknown', problem: unknownSchema(schema, names) }
  }
  const inSchema = overview.relations.filter(relation => schema === undefined || relation.schema === schema)
  if (table !== undefined) {
    const named = namedRelations(inSchema, table)
    if (named.length === 0) return { kind: 'unknown', problem: unknownTable(table, schema, inSchema) }
    return { kind: named.length > mostWithColumns ? 'list' : 'columns', relations: named }
  }
  const relations = inSchema.filter(
    ({ isPartition, hasVectors }) => (includePartitions || !isPartition) && (!vectorsOnly || hasVectors),
  )
  if (isSearch) return { kind: 'list', relations }
  if (relations.length <= mostWithColumns) return { kind: 'columns', relations }
  return { kind: schema === undefined && !vectorsOnly ? 'summary' : 'list', relations }
}

/** By the name alone, or as `schema.table`. */
function namedRelations(relations: readonly Relation[], table: string): readonly Relation[] {
  const named = relations.filter(({ name }) => name === table)
  return named.length > 0 ? named : relations.filter(({ schema, name }) => `${schema}.${name}` === table)
}

function unknownSchema(schema: string, names: readonly string[]): string {
  if (isSystemSchema(schema)) return `schema_name: "${schema}" is Postgres's own; query its views directly.`
  return `schema_name: there is no schema "${schema}" that this role may use.${suggestion(schema, names)}`
}

function unknownTable(table: string, schema: string | undefined, relations: readonly Relation[]): string {
  const place = schema === undefined ? '' : ` in the schema "${schema}"`
  const names = relations.map(relation =>
    schema === undefined && table.includes('.') ? `${relation.schema}.${relation.name}` : relation.name,
  )
  return `table_name: there is no table or view "${table}"${place} that this role may use.${suggestion(table, names)}`
}
