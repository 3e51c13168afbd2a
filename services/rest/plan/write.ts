/** Plans writes to a relation, and their response. */
import { type Column, representationKey, type SchemaCache, type Table } from '../../schema-cache/types.ts'
import { columnNotFound, putWithoutKey } from '../errors/catalogue.ts'
import type { JsonPayload, Payload } from '../parse/payload.ts'
import { unlimited } from '../parse/range.ts'
import type { ApiRequest } from '../parse/request.ts'
import type { ParsedQuery } from '../parse/types.ts'
import { planConditions } from './conditions.ts'
import { type ActionOf, bodyOf, type Context, checkPreferences, findTable, withoutBody } from './context.ts'
import { planRead, targetNamesOf } from './read.ts'
import type { Condition, Plan, ReadNode, WriteSource, WrittenColumn } from './types.ts'

type WriteAction = ActionOf<'insert' | 'update' | 'put' | 'delete'>

export function planWrite(
  context: Context,
  action: WriteAction,
  payload: Payload | undefined,
): Extract<Plan, { kind: 'write' }> {
  const { request, cache, settings } = context
  const table = findTable(cache, request.schema, action.relation)
  const relation = { schema: table.schema, name: table.name }
  const { preferences, query } = request
  const wants = preferences.return ?? 'minimal'
  // The root's filters, limits and order belong to the write. The response has all written rows.
  const isRoot = ({ path }: { path: readonly string[] }) => path.length === 0
  const returnedQuery: ParsedQuery = {
    ...query,
    filters: query.filters.filter(one => !isRoot(one)),
    logic: query.logic.filter(one => !isRoot(one)),
    limits: [],
    offsets: [],
  }
  const made = bodyOf(context, table)
  const reading = { cache, ...settings, maximumRows: undefined }
  // Unreadable selections are refused, also if the response has no body.
  const returned = planRead(reading, relation, returnedQuery, unlimited)
  const read = wants === 'representation' ? returned : planRead(reading, relation, unreturned(query), unlimited)
  const conditions = planConditions(cache, relation, query)
  if (action.kind === 'put') checkPut(table, query, conditions)
  const write = writeOf(context, action, payload, table, conditions)
  checkPreferences(request)
  const body = made()
  const locationKey = action.kind === 'insert' && wants === 'headers-only' ? table.primaryKey : []
  return {
    kind: 'write',
    targetNames: targetNamesOf(returned),
    relation,
    write,
    read,
    // If the response has only headers, the statement still reads the selected columns, so that Postgres refuses a
    // client without that privilege.
    returning: wants === 'minimal' ? [] : returningOf(returned, locationKey),
    body: wants === 'representation' ? body : withoutBody(body),
    countsExactly: preferences.count === 'exact' || preferences.count === 'estimated',
    locationKey,
    wants,
    maximumAffected:
      preferences.handling === 'strict' && action.kind !== 'insert' ? preferences.maxAffected : undefined,
  }
}

/** No rows are returned. */
const unreturned = (query: ParsedQuery): ParsedQuery => ({
  ...query,
  select: [],
  filters: [],
  logic: [],
  order: [],
  limits: [],
  offsets: [],
})

function writeOf(
  { request, cache }: Context,
  action: WriteAction,
  payload: Payload | undefined,
  table: Table,
  conditions: Condition[],
): Extract<Plan, { kind: 'write' }>['write'] {
  if (action.kind === 'delete') return { kind: 'delete', conditions }
  const source = sourceOf(jsonOf(payload), table, request, cache)
  if (action.kind === 'update') return { kind: 'update', source, conditions }
  const { resolution } = request.preferences
  const target = request.query.onConflict ?? table.primaryKey
  const merges = action.kind === 'put' || resolution === 'merge-duplicates'
  const isUpsert = (merges || resolution === 'ignore-duplicates') && target.length > 0
  return {
    kind: 'insert',
    source,
    onConflict: isUpsert ? { columns: target, resolution: merges ? 'merge' : 'ignore' } : undefined,
    conditions: action.kind === 'put' ? conditions : [],
    isPut: action.kind === 'put',
  }
}

function jsonOf(payload: Payload | undefined): JsonPayload {
  if (payload?.kind !== 'json') throw new Error('A relation accepts no raw body. The parser ensures this.')
  return payload
}

function sourceOf(payload: JsonPayload, table: Table, request: ApiRequest, cache: SchemaCache): WriteSource {
  const names = payload.keys ?? request.query.columns ?? []
  return {
    json: payload.json,
    isArray: payload.isArray,
    // The columns are ordered by name: if Postgres refuses several values, it reports the first.
    columns: [...new Set(names)]
      .toSorted()
      .map(name => writtenColumn(table, name, payload.csvKeys?.get(name) ?? name, cache)),
    useDefaults: request.preferences.missing === 'default',
  }
}

function writtenColumn(table: Table, name: string, key: string, cache: SchemaCache): WrittenColumn {
  const column: Column | undefined = table.columns.get(name)
  if (column === undefined) throw columnNotFound(table.name, name)
  const { type, baseType, default: expression } = column
  const fromJson = cache.representations.get(representationKey('json', type))?.function
  return { name, key, type, baseType, fromJson, default: expression }
}

/** A PUT selects one row by its full primary key. It has no other filter, also not in embeddings. */
function checkPut(table: Table, { filters, logic }: ParsedQuery, conditions: readonly Condition[]): void {
  const named = conditions.flatMap(one =>
    one.kind === 'filter' &&
    !one.negated &&
    one.field.path.length === 0 &&
    one.operation.kind === 'compare' &&
    one.operation.operator === 'eq' &&
    one.operation.quantifier === undefined
      ? [one.field.name]
      : [],
  )
  const isKey =
    table.primaryKey.length > 0 &&
    named.length === filters.length + logic.length &&
    named.every(column => table.primaryKey.includes(column)) &&
    table.primaryKey.every(column => named.includes(column))
  if (!isKey) throw putWithoutKey()
}

/** The columns of the written relation that the response needs. */
function returningOf(read: ReadNode, locationKey: readonly string[]): readonly string[] | 'all' {
  const names = new Set<string>(locationKey)
  for (const item of read.select) {
    if (item.kind === 'column') {
      if (item.field.name === '*') return 'all'
      names.add(item.field.name)
    } else if (item.join.kind === 'function') return 'all'
    else
      for (const [source] of item.join.kind === 'columns' ? item.join.columns : item.join.sourceColumns)
        names.add(source)
  }
  for (const { field, child } of read.order) if (child === undefined) names.add(field.name)
  return [...names]
}
