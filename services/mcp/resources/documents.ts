/** The content of each built-in resource: an object, and its lists that are truncated if the object is too large. */

import type { Json, JsonObject } from '../../mcp-protocol/json.ts'
import { onlyCell } from '../../postgres/cells.ts'
import type { Catalogue, Reading } from '../catalogue/index.ts'
import type { Overview, Relation } from '../catalogue/relations.ts'
import type { DatabaseSettings } from '../configuration/types.ts'
import type { DatabaseAccess, OwnStatement } from '../database/access.ts'
import * as statements from './statements.ts'
import { type RequestedResource, schemaUri, tableUri } from './uri.ts'

type Document = {
  readonly object: JsonObject
  /** The lists that may be truncated, in this order. */
  readonly lists?: readonly string[]
  readonly more?: string
}

type Sources = { readonly access: DatabaseAccess; readonly catalogue: Catalogue }

/** Returns undefined if the resource does not exist, or if the role may not see it. */
export async function documentOf(
  requested: RequestedResource,
  reading: Reading,
  { access, catalogue }: Sources,
): Promise<Document | undefined> {
  const read = async (statement: OwnStatement): Promise<Json | undefined> => {
    const [rows] = await access.read(reading.database, [statement], reading.context, reading.tool)
    const text = rows && onlyCell(rows)
    // The statement returns one JSON document.
    return text === undefined ? undefined : (JSON.parse(text) as Json)
  }
  const readObject = async (statement: OwnStatement) => {
    const value = await read(statement)
    return isObject(value) ? value : undefined
  }
  switch (requested.name) {
    case 'system_info':
      return systemDocument((await readObject(statements.systemInfo)) ?? {}, reading.database)
    case 'schemas':
      return schemasDocument(await catalogue.overview(reading))
    case 'schema':
      return schemaDocument(await catalogue.overview(reading), requested.schema)
    case 'table':
      return tableDocument(requested, reading, catalogue)
    case 'settings':
      return settingsDocument((await read(statements.settings)) ?? [])
    case 'setting':
      return documentFrom(await readObject(statements.setting(requested.setting)))
    case 'extensions':
      return {
        object: { extensions: await read(statements.extensions) },
        lists: ['extensions'],
        more: 'read pg://extensions/{name}',
      }
    case 'extension':
      return documentFrom(await readObject(statements.extension(requested.extension)))
    case 'activity':
      return listed(await readObject(statements.activity), 'sessions', 'query pg_stat_activity')
    case 'statistics':
      return listed(await readObject(statements.statistics), 'tables', 'query pg_stat_user_tables')
  }
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const documentFrom = (object: JsonObject | undefined): Document | undefined => object && { object }
const listed = (object: JsonObject | undefined, list: string, more: string): Document | undefined =>
  object && { object, lists: [list], more }

/** For example `PostgreSQL 17.1 on x86_64-pc-linux-gnu, compiled by gcc ..., 64-bit`. */
const versionParts = /^\S+ \S+ .*?on (?<platform>[^,]+), compiled by (?<compiler>.+), (?<bits>\d+-bit)$/

function systemDocument(found: JsonObject, { name, host, port, allowWrites }: DatabaseSettings): Document {
  const { platform = '', compiler = '', bits = '' } = versionParts.exec(String(found.full_version))?.groups ?? {}
  const [architecture = '', ...system] = platform.split('-')
  return {
    object: {
      ...found,
      operating_system: system.join('-'),
      architecture,
      compiler,
      bit_version: bits,
      host,
      port,
      connection_name: name,
      allow_writes: allowWrites,
    },
  }
}

function schemasDocument({ schemas, relations, isTruncated }: Overview): Document {
  const bySchema = Map.groupBy(relations, ({ schema }) => schema)
  const list = schemas.map(({ name, comment }) => {
    const own = bySchema.get(name) ?? []
    const views = own.filter(({ type }) => type.endsWith('VIEW')).length
    return { name, description: comment, tables: own.length - views, views, uri: schemaUri(name) }
  })
  return {
    object: { schemas: list, ...(isTruncated ? { incomplete: true } : {}) },
    lists: ['schemas'],
    more: 'call get_schema_info, or read pg://schemas/{schema}',
  }
}

const isOwn = ({ extension }: Relation): boolean => extension === undefined

function schemaDocument({ schemas, relations }: Overview, name: string): Document | undefined {
  const schema = schemas.find(one => one.name === name)
  if (schema === undefined) return undefined
  const inSchema = relations.filter(relation => relation.schema === name)
  // `cappedJson` truncates the end of a list that is too long.
  const tables = [...inSchema.filter(isOwn), ...inSchema.filter(relation => !isOwn(relation))].map(relation => ({
    ...describedRelation(relation),
    uri: tableUri(name, relation.name),
  }))
  return {
    object: { name, description: schema.comment, tables },
    lists: ['tables'],
    more: 'call get_schema_info with schema_name and search, or read pg://schemas/{schema}/tables/{table}',
  }
}

const describedRelation = ({ name, type, estimatedRows, comment, isPartition, hasVectors, extension }: Relation) => ({
  name,
  type,
  estimated_rows: estimatedRows,
  description: comment,
  ...(isPartition ? { is_partition: true } : {}),
  ...(hasVectors ? { has_vectors: true } : {}),
  ...(extension === undefined ? {} : { extension }),
})

async function tableDocument(
  { schema, table }: { schema: string; table: string },
  reading: Reading,
  catalogue: Catalogue,
): Promise<Document | undefined> {
  const { relations } = await catalogue.overview(reading)
  const relation = relations.find(one => one.schema === schema && one.name === table)
  if (relation === undefined) return undefined
  const details = (await catalogue.details(reading, [relation])).get(relation.oid)
  if (details === undefined) return undefined
  const { columns, constraints, indexes, referencedBy, partitionKey, partitionOf, viewQuery } = details
  return {
    object: {
      schema,
      ...describedRelation(relation),
      partition_key: partitionKey,
      partition_of: partitionOf,
      query: viewQuery,
      constraints: constraints.map(({ kind, name, definition }) => ({ kind, name, definition })),
      indexes: indexes.map(({ name, definition, isUnique, isValid }) => ({
        name,
        definition,
        unique: isUnique,
        valid: isValid,
      })),
      referenced_by: referencedBy.map(one => `${one.schema}.${one.table}(${one.columns.join(', ')})`),
      columns: columns.map(
        ({ name, type, isNullable, default: value, identity, generated, comment, labels, dimensions }) => ({
          name,
          type,
          nullable: isNullable,
          default: value,
          identity,
          generated,
          description: comment,
          ...(labels.length > 0 ? { labels } : {}),
          dimensions,
        }),
      ),
    },
    lists: ['referenced_by', 'columns', 'indexes', 'constraints'],
    more: 'call get_schema_info with schema_name and table_name',
  }
}

/** Changed settings with all details, and other settings with name and value only. */
function settingsDocument(found: Json): Document {
  const all = (Array.isArray(found) ? found : []).filter(isObject)
  const isOwn = ({ source }: JsonObject) => source !== 'default' && source !== 'override'
  return {
    object: {
      changed: all.filter(isOwn),
      defaults: all
        .filter(one => !isOwn(one))
        .map(({ name, value, unit }) => `${name}=${value}${unit === null ? '' : ` (${unit})`}`),
    },
    lists: ['defaults', 'changed'],
    more: 'read pg://settings/{name}',
  }
}
