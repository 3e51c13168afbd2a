/** From a parsed request to a plan. Pure: a function of the request, the schema cache and a few settings. */

import {
  type Column,
  type QualifiedName,
  type Routine,
  representationKey,
  type SchemaCache,
  type Table,
} from '../../schema-cache/types.ts'
import { affectedOfNoSet, columnNotFound, putWithLimit, putWithoutKey, tableNotFound } from '../errors/catalogue.ts'
import type { JsonPayload, Payload } from '../parse/payload.ts'
import { unlimited } from '../parse/range.ts'
import type { Action, ApiRequest } from '../parse/request.ts'
import type { ParsedQuery } from '../parse/types.ts'
import { callArguments, emptyArguments, findRoutine, offerOf, possibleRoutines } from './call.ts'
import { planConditions } from './conditions.ts'
import type { Output } from './fields.ts'
import { negotiate } from './media.ts'
import { planRead } from './read.ts'
import { suggestion } from './suggestions.ts'
import type { BodyPlan, CallArguments, Condition, Plan, ReadNode, WriteSource, WrittenColumn } from './types.ts'

export type PlanSettings = {
  readonly maximumRows: number | undefined
  readonly aggregatesEnabled: boolean
  readonly plansEnabled: boolean
}

type ActionOf<Kind extends Action['kind']> = Extract<Action, { kind: Kind }>
/** What goes to the database as one statement. */
export type PlannedAction = ActionOf<'read' | 'insert' | 'update' | 'put' | 'delete' | 'call'>

type Context = { request: ApiRequest; cache: SchemaCache; settings: PlanSettings }

/** The relation of this name; RST205 where it is not known. */
export function findTable(cache: SchemaCache, schema: string, name: string): Table {
  const table = cache.tables.get(schema)?.get(name)
  if (table !== undefined) return table
  const meant = suggestion(name, cache.tables.get(schema)?.keys() ?? [], 0.75)
  throw tableNotFound({ schema, name }, meant)
}

const selectsAll = ({ select }: ParsedQuery): boolean => {
  const [only] = select
  return (
    select.length === 1 &&
    only?.kind === 'field' &&
    only.field.name === '*' &&
    only.alias === undefined &&
    only.aggregate === undefined
  )
}

function bodyOf({ request, cache, settings }: Context, subject: QualifiedName): BodyPlan {
  const wholeRows = selectsAll(request.query)
  return negotiate(request.accept, { cache, subject, wholeRows, plansEnabled: settings.plansEnabled })
}

const outputOf = ({ shape }: BodyPlan): Output => (shape.kind === 'csv' ? 'text' : 'json')
const withoutBody = (body: BodyPlan): BodyPlan =>
  body.explain === undefined ? { ...body, shape: { kind: 'none' } } : body

/** `payload` is there where the request has a body that is read. */
export function plan(
  request: ApiRequest,
  action: PlannedAction,
  payload: Payload | undefined,
  cache: SchemaCache,
  settings: PlanSettings,
): Plan {
  const context = { request, cache, settings }
  switch (action.kind) {
    case 'read':
      return planReading(context, action)
    case 'call':
      return planCall(context, action, payload)
    default:
      return planWrite(context, action, payload)
  }
}

/**
 * What a request that has a body could come to, before the body is there: whatever is wrong with the rest of it is found, and what is planned can be held against the
 * privileges of who asks. Of a function that has others of its name, one plan for each.
 */
export function planWithoutBody(
  request: ApiRequest,
  action: PlannedAction,
  cache: SchemaCache,
  settings: PlanSettings,
): readonly Plan[] {
  const context = { request, cache, settings }
  switch (action.kind) {
    case 'insert':
    case 'put':
      return [planWrite(context, action, noRecords([]))]
    case 'update': {
      // To change nothing takes no privilege. Which columns are changed is not known: any will do.
      const columns = findTable(cache, request.schema, action.relation).columns.values()
      const [first] = columns.filter(({ generated }) => !generated)
      return first === undefined ? [] : [planWrite(context, action, noRecords([first.name]))]
    }
    case 'call': {
      const { body, query } = request
      const routines = possibleRoutines(cache, routineName(action, request.schema), body, query.columns)
      return routines.map(routine => planRoutine(context, action, routine, emptyArguments(routine)))
    }
    default:
      return []
  }
}

const noRecords = (keys: readonly string[]): JsonPayload => ({ kind: 'json', json: '[]', isArray: true, keys })

function planReading(context: Context, { relation, headersOnly }: ActionOf<'read'>): Plan {
  const { request, cache, settings } = context
  const table = findTable(cache, request.schema, relation)
  const body = bodyOf(context, table)
  const reading = { cache, output: outputOf(body), ...settings }
  return {
    kind: 'read',
    read: planRead(reading, { schema: table.schema, name: table.name }, request.query, request.range),
    body: headersOnly ? withoutBody(body) : body,
    count: request.preferences.count,
    maximumRows: settings.maximumRows,
    headersOnly,
  }
}

function planCall(context: Context, action: ActionOf<'call'>, payload: Payload | undefined): Plan {
  const { request, cache } = context
  const { parameters, columns } = request.query
  const routine = findRoutine(cache, routineName(action, request.schema), offerOf(parameters, payload, columns))
  return planRoutine(context, action, routine, callArguments(routine, parameters, payload, columns))
}

function planRoutine(
  context: Context,
  action: ActionOf<'call'>,
  routine: Routine,
  given: CallArguments,
): Extract<Plan, { kind: 'call' }> {
  const { request, cache, settings } = context
  const body = bodyOf(context, routine)
  const { maxAffected, handling } = request.preferences
  const maximumAffected = handling === 'strict' ? maxAffected : undefined
  if (maximumAffected !== undefined && !routine.returnsSet) throw affectedOfNoSet()
  const returned =
    routine.returns.kind === 'composite' && routine.returns.type.schema !== 'pg_catalog'
      ? routine.returns.type
      : { schema: routine.schema, name: routine.name }
  const isRead = action.method !== 'POST'
  const headersOnly = action.method === 'HEAD'
  const reading = { cache, output: outputOf(body), ...settings }
  return {
    kind: 'call',
    routine,
    arguments: given,
    read: planRead(reading, returned, request.query, request.range),
    body: headersOnly ? withoutBody(body) : body,
    count: request.preferences.count,
    maximumRows: settings.maximumRows,
    readOnly: isRead || routine.volatility !== 'volatile',
    headersOnly,
    maximumAffected,
  }
}

/** A root function may be named with its schema. */
function routineName({ name, atRoot }: ActionOf<'call'>, schema: string): QualifiedName {
  const dot = name.indexOf('.')
  if (!atRoot || dot === -1) return { schema, name }
  return { schema: name.slice(0, dot), name: name.slice(dot + 1) }
}

type WriteAction = ActionOf<'insert' | 'update' | 'put' | 'delete'>

function planWrite(
  context: Context,
  action: WriteAction,
  payload: Payload | undefined,
): Extract<Plan, { kind: 'write' }> {
  const { request, cache, settings } = context
  const table = findTable(cache, request.schema, action.relation)
  const relation = { schema: table.schema, name: table.name }
  const { preferences, query } = request
  const conditions = planConditions(cache, relation, query)
  if (action.kind === 'put') checkPut(table, request, conditions)
  const body = bodyOf(context, table)
  const wants = preferences.return ?? 'minimal'
  const shown = wants === 'representation' ? body : withoutBody(body)
  // Filters, limits and order of the root are the write's; what is returned is all that was written.
  const isRoot = ({ path }: { path: readonly string[] }) => path.length === 0
  const returnedQuery: ParsedQuery = {
    ...query,
    select: wants === 'representation' ? query.select : [],
    filters: query.filters.filter(one => !isRoot(one)),
    logic: query.logic.filter(one => !isRoot(one)),
    limits: query.limits.filter(one => !isRoot(one)),
    offsets: query.offsets.filter(one => !isRoot(one)),
    order: query.order,
  }
  const dropped =
    wants === 'representation'
      ? returnedQuery
      : { ...returnedQuery, filters: [], logic: [], order: [], limits: [], offsets: [] }
  const reading = { cache, output: outputOf(body), ...settings, maximumRows: undefined }
  const read = planRead(reading, relation, dropped, unlimited)
  const locationKey = action.kind === 'insert' && wants === 'headers-only' ? table.primaryKey : []
  return {
    kind: 'write',
    relation,
    write: writeOf(context, action, payload, table, conditions),
    read,
    returning: wants === 'representation' ? returningOf(read, locationKey) : locationKey,
    body: shown,
    countsExactly: preferences.count === 'exact',
    locationKey,
    wants,
    maximumAffected:
      preferences.handling === 'strict' && action.kind !== 'insert' ? preferences.maxAffected : undefined,
  }
}

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
  if (payload?.kind !== 'json') throw new Error('a relation takes no raw body; parsing sees to that')
  return payload
}

function sourceOf(payload: JsonPayload, table: Table, request: ApiRequest, cache: SchemaCache): WriteSource {
  const names = request.query.columns ?? payload.keys ?? []
  return {
    json: payload.json,
    isArray: payload.isArray,
    columns: [...new Set(names)].map((name, place) => writtenColumn(table, name, keyOf(payload, name, place), cache)),
    useDefaults: request.preferences.missing === 'default',
  }
}

/** The key in the JSON; of a column that CSV does not have, one that no record has. */
const keyOf = ({ csvKeys }: JsonPayload, name: string, place: number): string =>
  csvKeys === undefined ? name : (csvKeys.get(name) ?? `-${place}`)

function writtenColumn(table: Table, name: string, key: string, cache: SchemaCache): WrittenColumn {
  const column: Column | undefined = table.columns.get(name)
  if (column === undefined) throw columnNotFound(table.name, name)
  const { type, baseType, default: expression } = column
  const fromJson = cache.representations.get(representationKey('json', type))?.function
  return { name, key, type, baseType, fromJson, default: expression }
}

/** A PUT names one row, by its whole primary key and by nothing else. */
function checkPut(table: Table, { query }: ApiRequest, conditions: readonly Condition[]): void {
  if (query.limits.length > 0 || query.offsets.length > 0) throw putWithLimit()
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
    named.length === conditions.length &&
    named.length === table.primaryKey.length &&
    table.primaryKey.every(column => named.includes(column))
  if (!isKey) throw putWithoutKey()
}

/** The columns of the written relation that the answer is made from. */
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
