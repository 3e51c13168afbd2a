/**
 * Reads the schema cache from a database, with relationships.ts and view-columns.ts. Works in slices and yields the
 * event loop between them, so that a reload of ten thousand tables does not delay requests.
 */
import type { Address } from '../postgres/address.ts'
import { type SnapshotQuery, withSnapshot } from '../postgres/read-only.ts'
import {
  computedColumnsQuery,
  computedRelationshipsQuery,
  foreignKeysQuery,
  mediaHandlersQuery,
  relationsQuery,
  representationsQuery,
  routinesQuery,
  schemasQuery,
  timeZonesQuery,
  viewsQuery,
} from './queries.ts'
import { type ForeignKey, keyRelationships, type RelationFacts, Shown } from './relationships.ts'
import {
  type Column,
  type MediaHandler,
  type Relationship,
  type Routine,
  representationKey,
  type SchemaCache,
  type Table,
} from './types.ts'
import { type ColumnOrigin, columnOrigins } from './view-columns.ts'

/** A schema that the configuration exposes does not exist. */
export class MissingSchemas extends Error {
  constructor(names: readonly string[]) {
    super(`the database has no schema ${names.map(name => JSON.stringify(name)).join(', ')}`)
    this.name = 'MissingSchemas'
  }
}

type SchemaCacheScope = {
  schemas: readonly string[]
  hoistedSettings: readonly string[]
  /** Whether to read time zones, which takes Postgres a while. */
  timeZones: boolean
}

type ColumnRow = [
  name: string,
  number: number,
  description: string | null,
  nullable: boolean,
  baseType: string,
  type: string,
  maximumLength: number | null,
  default_: string | null,
  generated: boolean,
  enumValues: string[] | null,
]
type RelationRow = {
  oid: number
  schema: string
  name: string
  description: string | null
  is_view: boolean
  insertable: boolean
  updatable: boolean
  deletable: boolean
  primary_key: number[] | null
  columns: ColumnRow[]
}

type ForeignKeyRow = {
  name: string
  source: number
  target: number
  source_columns: number[]
  target_columns: number[]
  is_unique: boolean
}

const slice = 250
const yieldToOthers = () => new Promise<void>(resolve => setImmediate(resolve))

async function inSlices<T>(list: readonly T[], each: (item: T) => void): Promise<void> {
  for (const [index, item] of list.entries()) {
    if (index > 0 && index % slice === 0) await yieldToOthers()
    each(item)
  }
}

/** Adds to a list in a nested map. */
function put<T>(map: Map<string, Map<string, T[]>>, { schema, name }: { schema: string; name: string }, item: T): void {
  const inSchema = map.get(schema) ?? new Map<string, T[]>()
  map.set(schema, inSchema)
  const list = inSchema.get(name)
  if (list === undefined) inSchema.set(name, [item])
  else list.push(item)
}

/**
 * Reads everything over a new connection in one read-only transaction, so that the result is consistent.
 * @throws MissingSchemas, ConnectionFailure
 */
export function readSchemaCache(address: Address, scope: SchemaCacheScope): Promise<SchemaCache> {
  return withSnapshot(address, query => loadSchemaCache(query, scope))
}

/**
 * Reads everything over one connection. `query` must run in one read-only transaction, with an empty search_path.
 * @throws MissingSchemas, as PostgREST does: with a misspelt schema every request would return 404
 */
export async function loadSchemaCache(query: SnapshotQuery, scope: SchemaCacheScope): Promise<SchemaCache> {
  // The row types follow from queries.ts. The catalogs have their documented types.
  const schemas = await query<{ name: string; description: string | null }>(schemasQuery, [scope.schemas])
  refuseMissing(
    scope.schemas,
    schemas.map(({ name }) => name),
  )
  const relations = await readRelations(query)
  const routines = await loadRoutines(query, scope)
  const computed = await query<ComputedRow>(computedRelationshipsQuery)
  const computedColumns = await loadComputedColumns(query, scope.schemas)
  const representations = await loadRepresentations(query)
  const mediaHandlers = await loadMediaHandlers(query, scope.schemas)
  const zones = scope.timeZones ? await query<{ name: string }>(timeZonesQuery) : []

  const resolved = await resolveRelations(relations)
  const relationships = await relationshipsOf(resolved, relations.foreignKeys)
  putComputed(relationships, resolved.facts, computed)
  return {
    tables: await tablesOf(relations.rows, resolved.primaryKeys),
    relationships,
    routines,
    representations,
    computedColumns,
    mediaHandlers,
    timeZones: new Set(zones.map(({ name }) => name)),
    schemaDescriptions: new Map(schemas.map(({ name, description }) => [name, description])),
  }
}

type RelationRows = {
  readonly rows: readonly RelationRow[]
  readonly foreignKeys: readonly ForeignKey[]
  /** The rules of views. */
  readonly views: readonly { readonly oid: number; readonly tree: string }[]
}

async function readRelations(query: SnapshotQuery): Promise<RelationRows> {
  const rows = await query<RelationRow>(relationsQuery)
  const keys = await query<ForeignKeyRow>(foreignKeysQuery)
  const foreignKeys = keys.map(row => ({
    name: row.name,
    source: row.source,
    target: row.target,
    sourceColumns: row.source_columns,
    targetColumns: row.target_columns,
    isUnique: row.is_unique,
  }))
  return { rows, foreignKeys, views: await query<{ oid: number; tree: string }>(viewsQuery) }
}

/** The input for the relationships. */
type Resolved = {
  readonly facts: ReadonlyMap<number, RelationFacts>
  readonly shown: Shown
  readonly primaryKeys: ReadonlyMap<number, readonly number[]>
}

async function resolveRelations({ rows, views }: RelationRows): Promise<Resolved> {
  const facts = new Map<number, RelationFacts>()
  await inSlices(rows, ({ oid, schema, name, is_view, primary_key, columns }) => {
    const columnNames = new Map(columns.map(([column, number]) => [number, column]))
    facts.set(oid, { oid, schema, name, isView: is_view, columnNames, primaryKey: primary_key ?? [] })
  })
  const origins = new Map<number, ColumnOrigin[]>()
  await inSlices(views, ({ oid, tree }) => {
    origins.set(oid, columnOrigins(tree))
  })
  const shown = new Shown(origins)
  const primaryKeys = new Map<number, readonly number[]>()
  await inSlices([...facts.values()], ({ oid, isView, primaryKey }) => {
    primaryKeys.set(oid, isView ? shown.primaryKey(oid, facts) : primaryKey)
  })
  return { facts, shown, primaryKeys }
}

async function tablesOf(
  rows: readonly RelationRow[],
  primaryKeys: Resolved['primaryKeys'],
): Promise<SchemaCache['tables']> {
  const tables = new Map<string, Map<string, Table>>()
  await inSlices(rows, row => {
    const inSchema = tables.get(row.schema) ?? new Map<string, Table>()
    tables.set(row.schema, inSchema)
    inSchema.set(row.name, toTable(row, primaryKeys.get(row.oid) ?? []))
  })
  return tables
}

type Relationships = Map<string, Map<string, Relationship[]>>

async function relationshipsOf(
  { facts, shown, primaryKeys }: Resolved,
  foreignKeys: readonly ForeignKey[],
): Promise<Relationships> {
  const relationships: Relationships = new Map()
  await yieldToOthers()
  await inSlices(keyRelationships(facts, foreignKeys, shown, primaryKeys), relationship => {
    put(relationships, relationship.source, relationship)
  })
  return relationships
}

type ComputedRow = { schema: string; name: string; source: number; target: number; to_one: boolean }

function putComputed(relationships: Relationships, facts: Resolved['facts'], computed: readonly ComputedRow[]): void {
  for (const { schema, name, source, target, to_one } of computed) {
    const [from, to] = [facts.get(source), facts.get(target)]
    if (from === undefined || to === undefined) continue
    put(relationships, from, {
      kind: 'computed',
      function: { schema, name },
      source: { schema: from.schema, name: from.name },
      target: { schema: to.schema, name: to.name },
      self: source === target,
      toOne: to_one,
    })
  }
}

async function loadComputedColumns(
  query: SnapshotQuery,
  schemas: readonly string[],
): Promise<SchemaCache['computedColumns']> {
  const found = new Map<string, Map<string, string[]>>()
  const rows = await query<{ schema: string; name: string; column: string }>(computedColumnsQuery, [schemas])
  for (const row of rows) put(found, row, row.column)
  return found
}

async function loadRepresentations(query: SnapshotQuery): Promise<SchemaCache['representations']> {
  const rows = await query<{ source: string; target: string; schema: string; name: string }>(representationsQuery)
  return new Map(
    rows.map(({ source, target, schema, name }) => [
      representationKey(source, target),
      { source, target, function: { schema, name } },
    ]),
  )
}

function refuseMissing(wanted: readonly string[], found: readonly string[]): void {
  const missing = wanted.filter(name => !found.includes(name))
  if (missing.length > 0) throw new MissingSchemas(missing)
}

function toColumn(row: ColumnRow): Column {
  const [name, , description, nullable, baseType, type, maximumLength, default_, generated, enumValues] = row
  return {
    name,
    description,
    nullable,
    baseType,
    type,
    maximumLength,
    default: default_,
    generated,
    enumValues: enumValues ?? [],
  }
}

function toTable(row: RelationRow, key: readonly number[]): Table {
  const names = new Map(row.columns.map(([column, number]) => [number, column]))
  return {
    schema: row.schema,
    name: row.name,
    description: row.description,
    isView: row.is_view,
    insertable: row.insertable,
    updatable: row.updatable,
    deletable: row.deletable,
    primaryKey: key.flatMap(column => names.get(column) ?? []),
    columns: new Map(row.columns.map(column => [column[0], toColumn(column)])),
  }
}

async function loadRoutines(query: SnapshotQuery, scope: SchemaCacheScope): Promise<SchemaCache['routines']> {
  const found = await query<{
    schema: string
    name: string
    description: string | null
    parameters: Routine['parameters']
    type_schema: string
    type_name: string
    is_alias: boolean
    is_composite: boolean
    returns_set: boolean
    returns_void: boolean
    volatility: Routine['volatility']
    variadic: boolean
    isolation_level: string | null
    settings: [string, string][] | null
  }>(routinesQuery, [scope.schemas, scope.hoistedSettings])
  const routines = new Map<string, Map<string, Routine[]>>()
  await inSlices(found, row => {
    const type = { schema: row.type_schema, name: row.type_name }
    put(routines, row, {
      schema: row.schema,
      name: row.name,
      description: row.description,
      parameters: row.parameters,
      returns: row.is_composite ? { kind: 'composite', type, isAlias: row.is_alias } : { kind: 'scalar', type },
      returnsSet: row.returns_set,
      returnsVoid: row.returns_void,
      volatility: row.volatility,
      variadic: row.variadic,
      isolationLevel: scope.hoistedSettings.includes('default_transaction_isolation') ? row.isolation_level : null,
      settings: row.settings ?? [],
    })
  })
  return routines
}

async function loadMediaHandlers(query: SnapshotQuery, schemas: readonly string[]): Promise<MediaHandler[]> {
  const found = await query<{
    schema: string
    name: string
    is_aggregate: boolean
    subject_schema: string | null
    subject_name: string | null
    media_type: string
    type_schema: string
    type_name: string
  }>(mediaHandlersQuery, [schemas])
  return found.map(row => {
    const own = { schema: row.schema, name: row.name }
    const { subject_schema: schema, subject_name: name } = row
    const ofRelation = schema === null || name === null ? undefined : { schema, name }
    return {
      aggregate: row.is_aggregate ? own : undefined,
      subject: row.is_aggregate ? ofRelation : own,
      mediaType: row.media_type,
      type: { schema: row.type_schema, name: row.type_name },
    }
  })
}
