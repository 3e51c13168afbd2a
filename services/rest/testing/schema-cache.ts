/** For tests: a small hand-written schema cache with all kinds of objects, and requests that are planned with it. */

import type { RequestHead } from '../../http/message.ts'
import {
  type MediaHandler,
  type QualifiedName,
  type Relationship,
  type Representation,
  type Routine,
  representationKey,
  type SchemaCache,
  type Table,
} from '../../schema-cache/types.ts'
import { payloadReader } from '../parse/payload.ts'
import { type ApiRequest, parseRequest, type RequestRules } from '../parse/request.ts'
import type { PlanSettings } from '../plan/context.ts'
import { type PlannedAction, plan, planWithoutBody } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import { column, keys, parameter, routine, table, toOne } from './openapi.ts'

export const own = (name: string): QualifiedName => ({ schema: 'test', name })

type Parts = {
  tables?: readonly Table[]
  relationships?: readonly Relationship[]
  routines?: readonly Routine[]
  representations?: readonly Representation[]
  mediaHandlers?: readonly MediaHandler[]
  /** The columns by relation. */
  computedColumns?: Readonly<Record<string, readonly string[]>>
}

/** A cache that has only the schema `test`. */
export function cacheOf(parts: Parts): SchemaCache {
  const { tables = [], relationships = [], routines = [], representations = [], mediaHandlers = [] } = parts
  const { computedColumns = {} } = parts
  return {
    tables: new Map([['test', new Map(tables.map(one => [one.name, one]))]]),
    relationships: new Map([['test', Map.groupBy(relationships, ({ source }) => source.name)]]),
    routines: new Map([['test', Map.groupBy(routines, ({ name }) => name)]]),
    representations: new Map(representations.map(one => [representationKey(one.source, one.target), one])),
    mediaHandlers,
    computedColumns: new Map([['test', new Map(Object.entries(computedColumns))]]),
    timeZones: new Set(['UTC']),
    schemaDescriptions: new Map([['test', null]]),
  }
}

const color = 'test.color'
const tables = [
  table(
    'projects',
    [
      column('id', 'integer'),
      column('name', 'text', { default: "'new'::text" }),
      column('client_id', 'integer'),
      column('data', 'jsonb'),
      column('tags', 'text[]'),
      column('color', 'integer', { type: color }),
      column('search', 'tsvector'),
    ],
    { primaryKey: ['id'] },
  ),
  table('clients', [column('id', 'integer'), column('name', 'text')], { primaryKey: ['id'] }),
  table('tasks', [column('id', 'integer'), column('name', 'text'), column('project_id', 'integer')], {
    primaryKey: ['id'],
  }),
  table('users', [column('id', 'integer'), column('name', 'text')], { primaryKey: ['id'] }),
  table('users_projects', [column('user_id', 'integer'), column('project_id', 'integer'), column('role', 'text')], {
    primaryKey: ['user_id', 'project_id'],
  }),
  table('keyless', [column('a', 'integer'), column('b', 'text')]),
]

const relationships: Relationship[] = [
  toOne('projects', 'clients', [['client_id', 'id']]),
  keys('clients', 'projects', { kind: 'one-to-many', constraint: 'projects_clients', columns: [['id', 'client_id']] }),
  toOne('tasks', 'projects', [['project_id', 'id']]),
  keys('projects', 'tasks', { kind: 'one-to-many', constraint: 'tasks_projects', columns: [['id', 'project_id']] }),
  keys('projects', 'users', {
    kind: 'many-to-many',
    junction: {
      table: own('users_projects'),
      sourceConstraint: 'users_projects_project',
      targetConstraint: 'users_projects_user',
      sourceColumns: [['id', 'project_id']],
      targetColumns: [['id', 'user_id']],
    },
  }),
  {
    ...{ kind: 'computed', function: own('newest_task'), toOne: true, self: false },
    ...{ source: own('projects'), target: own('tasks') },
  },
]

const setOfProjects = {
  returns: { kind: 'composite', type: own('projects'), isAlias: false },
  returnsSet: true,
} satisfies Partial<Routine>

const routines = [
  routine('add', [parameter('a', 'integer'), parameter('b', 'integer', { required: false })]),
  routine('find', [parameter('name', 'text', { required: false })], setOfProjects),
  routine('write', [parameter('name', 'text')], { volatility: 'volatile' }),
  routine('join', [parameter('words', 'text[]', { variadic: true })]),
  routine('take_json', [parameter('', 'json')]),
  routine('take_bytes', [parameter('', 'bytea')]),
]

const conversion = (source: string, target: string, name: string): Representation => ({
  ...{ source, target },
  function: own(name),
})

/** Six relations with relationships of each kind, functions, a domain with conversions, and two media-type handlers. */
export const sampleCache = cacheOf({
  ...{ tables, relationships, routines },
  representations: [
    conversion(color, 'json', 'color_to_json'),
    conversion('json', color, 'color_from_json'),
    conversion('text', color, 'color_from_text'),
    conversion(color, 'text', 'color_to_text'),
  ],
  mediaHandlers: [
    { aggregate: own('as_xml'), subject: own('clients'), mediaType: 'text/xml', type: own('text/xml') },
    { aggregate: own('as_any'), subject: undefined, mediaType: 'application/x-any', type: own('application/x-any') },
  ],
})

export const sampleSettings: PlanSettings = {
  maximumRows: undefined,
  aggregatesEnabled: true,
  plansEnabled: true,
  ndjsonEnabled: false,
  aliasesOnly: false,
}

export type Sent = Partial<RequestHead> & { body?: string | Buffer }

export const sampleRules: RequestRules = {
  schemas: ['test'],
  rootFunction: undefined,
  openApiDisabled: false,
  timeZones: new Set(['UTC']),
}

/** Splits `GET /projects?select=id`. */
export function headOf(line: string): RequestHead {
  const [, method = '', path = '', query = ''] = /^(\S+) ([^?]*)\??(.*)$/s.exec(line) ?? []
  return { method, path, query, headers: {}, address: '' }
}

/** Splits and parses it. */
const parsed = (line: string, sent: Sent, rootFunction?: string): ApiRequest =>
  parseRequest({ ...headOf(line), ...sent }, { ...sampleRules, rootFunction })

/** Parses and plans `GET /projects?select=id`. */
export function planned(
  line: string,
  sent: Sent = {},
  cache: SchemaCache = sampleCache,
  settings: Partial<PlanSettings> = {},
  rootFunction?: string,
): Plan {
  const request = parsed(line, sent, rootFunction)
  const reader = request.body === undefined ? undefined : payloadReader(request.body)
  reader?.push(Buffer.from(sent.body ?? ''))
  return plan(request, statement(request.action), reader?.end(), cache, { ...sampleSettings, ...settings })
}

/** The possible plans before the body is known. */
export function plannedWithoutBody(line: string, sent: Sent = {}, cache: SchemaCache = sampleCache): readonly Plan[] {
  const request = parsed(line, sent)
  return planWithoutBody(request, statement(request.action), cache, sampleSettings)
}

function statement(action: ReturnType<typeof parseRequest>['action']): PlannedAction {
  switch (action.kind) {
    case 'openapi':
    case 'options':
    case 'options-root':
    case 'options-function':
      throw new Error(`${action.kind} runs no statement`)
    default:
      return action
  }
}
