/** Decides which schemas, tables or columns answer a call. */
import { fencedNames, suggestion } from '../catalogue/names.ts'
import type { Overview, Relation } from '../catalogue/relations.ts'

export type SchemaQuestion = {
  readonly schema: string | undefined
  readonly table: string | undefined
  readonly vectorsOnly: boolean
  readonly includePartitions: boolean
  readonly includeExtensions: boolean
  readonly isSearch: boolean
}

/** `ofExtensions`: how many relations of extensions are omitted. */
type Chosen = { readonly relations: readonly Relation[]; readonly ofExtensions: number }

export type SchemaChoice =
  | (Chosen & { readonly kind: 'summary' })
  /** Matches of a search, or a list of tables that is too long to show columns. */
  | (Chosen & { readonly kind: 'list' })
  | (Chosen & { readonly kind: 'columns' })
  | { readonly kind: 'unknown'; readonly problem: string }

/** For more tables than this, the answer has no columns. */
const mostWithColumns = 10

const isSystemSchema = (name: string): boolean => name === 'information_schema' || name.startsWith('pg_')

export function chooseRelations(overview: Overview, question: SchemaQuestion): SchemaChoice {
  const { schema, table, vectorsOnly, isSearch } = question
  if (schema !== undefined && !overview.schemas.some(({ name }) => name === schema)) {
    const names = overview.schemas.map(({ name }) => name)
    return { kind: 'unknown', problem: unknownSchema(schema, names) }
  }
  const inSchema = overview.relations.filter(relation => schema === undefined || relation.schema === schema)
  if (table !== undefined) {
    const named = namedRelations(inSchema, table)
    if (named.length === 0)
      return { kind: 'unknown', problem: unknownTable(table, schema, inSchema, overview.relations) }
    return { kind: named.length > mostWithColumns ? 'list' : 'columns', relations: named, ofExtensions: 0 }
  }
  const chosen = shownOf(inSchema, question)
  if (isSearch) return { kind: 'list', ...chosen }
  if (chosen.relations.length <= mostWithColumns) return { kind: 'columns', ...chosen }
  return { kind: schema === undefined && !vectorsOnly ? 'summary' : 'list', ...chosen }
}

/**
 * Relations of extensions are the least relevant, so they are last or omitted. A search includes them, and so does
 * a schema that has no other relations.
 */
function shownOf(
  inSchema: readonly Relation[],
  { schema, vectorsOnly, includePartitions, includeExtensions, isSearch }: SchemaQuestion,
): Chosen {
  const all = inSchema.filter(
    ({ isPartition, hasVectors }) => (includePartitions || !isPartition) && (!vectorsOnly || hasVectors),
  )
  const own = all.filter(({ extension }) => extension === undefined)
  const ofExtension = all.filter(({ extension }) => extension !== undefined)
  const isOnlyOfExtensions = schema !== undefined && own.length === 0
  return includeExtensions || isSearch || isOnlyOfExtensions
    ? { relations: [...own, ...ofExtension], ofExtensions: 0 }
    : { relations: own, ofExtensions: ofExtension.length }
}

/** Finds relations by name, or by `schema.table`. */
function namedRelations(relations: readonly Relation[], table: string): readonly Relation[] {
  const named = relations.filter(({ name }) => name === table)
  return named.length > 0 ? named : relations.filter(({ schema, name }) => `${schema}.${name}` === table)
}

function unknownSchema(schema: string, names: readonly string[]): string {
  if (isSystemSchema(schema))
    return `schema_name: "${schema}" is a system schema of Postgres; query its views directly.`
  return `schema_name: there is no schema "${schema}" that this role may use.${suggestion(schema, names)}`
}

function unknownTable(
  table: string,
  schema: string | undefined,
  relations: readonly Relation[],
  all: readonly Relation[],
): string {
  const inSchema = schema === undefined ? '' : ` in the schema "${schema}"`
  const names = relations.map(relation =>
    schema === undefined && table.includes('.') ? `${relation.schema}.${relation.name}` : relation.name,
  )
  const named = all.filter(({ name }) => name === table).slice(0, 3)
  const elsewhere =
    named.length === 0
      ? ''
      : ` Other schemas have this name:\n${fencedNames(named.map(one => `${one.schema}.${one.name}`))}`
  return `table_name: there is no table or view "${table}"${inSchema} that this role may use.${suggestion(table, names) || elsewhere}`
}
