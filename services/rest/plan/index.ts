/** Converts a parsed request to a plan. Pure: depends only on the request, the schema cache and a few settings. */

import type { QualifiedName, Routine, SchemaCache } from '../../schema-cache/types.ts'
import { affectedOfNoSet } from '../errors/catalogue.ts'
import { planKeyset } from '../keyset/plan.ts'
import type { JsonPayload, Payload } from '../parse/payload.ts'
import type { ApiRequest } from '../parse/request.ts'
import { callArguments, emptyArguments, findRoutine, offerOf, possibleRoutines } from './call.ts'
import {
  type ActionOf,
  bodyOf,
  type Context,
  checkPreferences,
  findTable,
  type PlanSettings,
  withoutBody,
} from './context.ts'
import { planRead, targetNamesOf } from './read.ts'
import type { CallArguments, Plan } from './types.ts'
import { planWrite } from './write.ts'

/** A plan for one statement. */
export type PlannedAction = ActionOf<'read' | 'insert' | 'update' | 'put' | 'delete' | 'call'>

/** `payload`: defined if the request has a body. */
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
 * Returns the possible plans of a request before its body is known. Throws all other errors, and the service can check
 * the caller's privileges. An overloaded function has one plan for each overload.
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
      return [planWrite(context, action, noRecords(request, []))]
    case 'update': {
      // A write that changes nothing needs no privilege. The changed columns are unknown, so the privilege on any
      // column is enough.
      const columns = findTable(cache, request.schema, action.relation).columns.values()
      const [first] = columns.filter(({ generated }) => !generated)
      return first === undefined ? [] : [planWrite(context, action, noRecords(request, [first.name]))]
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

/** For a JSON body, `columns` names the keys. */
const noRecords = ({ body }: ApiRequest, keys: readonly string[]): JsonPayload => ({
  kind: 'json',
  json: '[]',
  isArray: true,
  keys: body?.type === 'json' && body.keysAreNamed ? undefined : keys,
})

function planReading(context: Context, { relation, headersOnly }: ActionOf<'read'>): Plan {
  const { request, cache, settings } = context
  const table = findTable(cache, request.schema, relation)
  const made = bodyOf(context, table)
  const reading = { cache, ...settings }
  const complete = planRead(reading, { schema: table.schema, name: table.name }, request.query, request.range)
  const { cursor } = request
  const paged = cursor === undefined ? undefined : planKeyset(cache, request, table, complete, cursor)
  const body = made()
  checkPreferences(request)
  return {
    kind: 'read',
    targetNames: targetNamesOf(complete),
    read: paged?.read ?? complete,
    keyset: paged?.keyset,
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
  args: CallArguments,
): Extract<Plan, { kind: 'call' }> {
  const { request, cache, settings } = context
  const { returned, knownAs } = rowsOf(routine)
  const isRead = action.method !== 'POST'
  const headersOnly = action.method === 'HEAD'
  // A relation's handler also applies to the relation's rows that a function returns.
  const made = bodyOf(context, returned)
  const read = planRead({ cache, ...settings, returnedAs: knownAs }, returned, request.query, request.range)
  const body = made()
  checkPreferences(request)
  const { maxAffected, handling } = request.preferences
  const maximumAffected = handling === 'strict' ? maxAffected : undefined
  if (maximumAffected !== undefined && !routine.returnsSet) throw affectedOfNoSet()
  return {
    kind: 'call',
    targetNames: targetNamesOf(read),
    routine,
    arguments: args,
    read,
    body: headersOnly ? withoutBody(body) : body,
    // How many rows a function returns is unknown beforehand.
    count: request.preferences.count === 'planned' ? undefined : request.preferences.count && 'exact',
    maximumRows: settings.maximumRows,
    readOnly: isRead || routine.volatility !== 'volatile',
    headersOnly,
    maximumAffected,
  }
}

/**
 * The relation of a function's rows, and Postgres's name for them. Without a relation, the rows are records, even if a
 * relation has the function's name.
 */
function rowsOf({ schema, name, returns }: Routine): { returned: QualifiedName; knownAs: string } {
  if (returns.kind !== 'composite') return { returned: { schema, name }, knownAs: name }
  const { type } = returns
  return type.schema === 'pg_catalog'
    ? { returned: { schema, name: type.name }, knownAs: name }
    : { returned: type, knownAs: type.name }
}

/** The configuration may name a root function with its schema. */
export function routineName(
  { name, atRoot }: { readonly name: string; readonly atRoot: boolean },
  schema: string,
): QualifiedName {
  const dot = name.indexOf('.')
  if (!atRoot || dot === -1) return { schema, name }
  return { schema: name.slice(0, dot), name: name.slice(dot + 1) }
}
