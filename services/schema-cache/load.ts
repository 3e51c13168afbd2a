/**
 * Reads the schema cache from a database: the thin shell around relationships.ts and view-columns.ts. It works in slices and gives way to requests between them,
 * so that a reload of ten thousand tables is not felt by whoever is being served meanwhile.
 */
import type { Address } from '../postgres/address.ts'
import { withClient } from '../postgres/connect.ts'
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

/** A schema that is to be served is not there. */
export class MissingSchemas extends Error {
  constructor(names: readonly string[]) {
    super(`the database has no schema ${names.map(name => JSON.stringify(name)).join(', ')}`)
    this.name = 'MissingSchemas'
  }
}

/** Runs one statement with parameters and gives its rows, columns by name. */
type RunQuery = (text: string, values?: readonly unknown[]) => Promise<Record<string, unknown>[]>

type SchemaCacheScope = {
  schemas: readonly string[]
  hoistedSettings: readonly string[]
  /** Whether time zones are read; finding them takes Postgres a while. */
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

const slice = 250
const giveWay = () => new Promise<void>(resolve => setImmediate(resolve))

async function inSlices<T>(list: readonly T[], each: (item: T) => void): Promise<void> {
  for (const [index, item] of list.entries()) {
    if (index > 0 && index % slice === 0) await giveWay()
    each(item)
  }
}

/** Adds to a list in a map of maps. */
function put<T>(map: Map<string, Map<string, T[]>>, { schema, name }: { schema: string; name: string }, item: T): void {
  const inSchema = map.get(schema) ?? new Map<string, T[]>()
  map.set(schema, inSchema)
  const list = inSchema.get(name)
  if (list === undefined) inSchema.set(name, [item])
  else list.push(item)
}

/**
 * Reads everything over a connection of its own, in one read-only transaction, so that all of it is of one moment.
 * @throws MissingSchemas, ConnectionFailure
 */
export function readSchemaCache(address: Address, scope: SchemaCacheScope): Promise<SchemaCache> {
  return withClient(address, async client => {
    await client.query(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
    await client.query(`SET LOCAL search_path = ''`)
    return await loadSchemaCache(async (text, values = []) => (await client.query(text, [...values])).rows, scope)
  })
}

/**
 * Reads everything over one connection; `query` is expected to run inside one read-only transaction, with an empty search_path.
 * @throws MissingSchemas, as PostgREST does: what is misspelt would answer 404 to everything.
 */
export async function loadSchemaCache(query: RunQuery, scope: SchemaCacheScope): Promise<SchemaCache> {
  // Each row below is what its query in queries.ts selects; the catalogs are trusted to keep to their own types.
  const rows = async <Row>(text: string, values?: readonly unknown[]) => (await query(text, values)) as Row[]
  const schemas = await rows<{ name: string; description: string | null }>(schemasQuery, [scope.schemas])
  refuseMissing(
    scope.schemas,
    schemas.map(({ name }) => name),
  )
  const relationRows = await rows<RelationRow>(relationsQuery)
  const foreignKeyRows = await rows<{
    name: string
    source: number
    target: number
    source_columns: number[]
    target_columns: number[]
    is_unique: boolean
  }>(foreignKeysQuery)
  const viewRows = await rows<{ oid: number; tree: string }>(viewsQuery)
  const routines = await loadRoutines(rows, scope)
  const computed = await rows<{ schema: string; name: string; source: number; target: number; to_one: boolean }>(
    computedRelationshipsQuery,
  )
  const computedRows = await rows<{ schema: string; name: string; column: string }>(computedColumnsQuery, [
    scope.schemas,
  ])
  const representations = await rows<{ source: string; target: string; schema: string; name: string }>(
    representationsQuery,
  )
  const mediaHandlers = await loadMediaHandlers(rows, scope.schemas)
  const zones = scope.timeZones ? await rows<{ name: string }>(timeZonesQuery) : []

  const facts = new Map<number, RelationFacts>()
  await inSlices(relationRows, ({ oid, schema, name, is_view, primary_key, columns }) => {
    const columnNames = new Map(columns.map(([column, number]) => [number, column]))
    facts.set(oid, { oid, schema, name, isView: is_view, columnNames, primaryKey: primary_key ?? [] })
  })
  const origins = new Map<number, ColumnOrigin[]>()
  await inSlices(viewRows, ({ oid, tree }) => {
    origins.set(oid, columnOrigins(tree))
  })
  const shown = new Shown(origins)
  const primaryKeys = new Map<number, readonly number[]>()
  await inSlices([...facts.values()], ({ oid, isView, primaryKey }) => {
    primaryKeys.set(oid, isView ? shown.primaryKey(oid, facts) : primaryKey)
  })

  const tables = new Map<string, Map<string, Table>>()
  await inSlices(relationRows, row => {
    const { schema, name } = row
    const inSchema = tables.get(schema) ?? new Map<string, Table>()
    tables.set(schema, inSchema)
    const key = primaryKeys.get(row.oid) ?? []
    inSchema.set(name, toTable(row, key))
  })

  const relationships = new Map<string, Map<string, Relationship[]>>()
  const foreignKeys: ForeignKey[] = foreignKeyRows.map(row => ({
    name: row.name,
    source: row.source,
    target: row.target,
    sourceColumns: row.source_columns,
    targetColumns: row.target_columns,
    isUnique: row.is_unique,
  }))
  await giveWay()
  await inSlices(keyRelationships(facts, foreignKeys, shown, primaryKeys), relationship => {
    put(relationships, relationship.source, relationship)
  })
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
  const computedColumns = new Map<string, Map<string, string[]>>()
  for (const row of computedRows) put(computedColumns, row, row.column)

  return {
    tables,
    relationships,
    routines,
    representations: new Map(
      representations.map(({ source, target, schema, name }) => [
        representationKey(source, target),
        { source, target, function: { schema, name } },
      ]),
    ),
    computedColumns,
    mediaHandlers,
    timeZones: new Set(zones.map(({ name }) => name)),
    schemaDescriptions: new Map(schemas.map(({ name, description }) => [name, description])),
  }
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

type Rows = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>

async function loadRoutines(rows: Rows, scope: SchemaCacheScope): Promise<SchemaCache['routines']> {
  const found = await rows<{
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

async function loadMediaHandlers(rows: Rows, schemas: readonly string[]): Promise<MediaHandler[]> {
  const found = await rows<{
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
