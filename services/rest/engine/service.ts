/** Answers one request: who asks, what is asked, how it is asked of Postgres, and what is said in return. */
import { anonymousRefused } from '../authentication/index.ts'
import { RestError } from '../errors.ts'
import { type AccessibleRow, accessibleOf, accessibleSql, everythingIn } from '../openapi/accessible.ts'
import { renderOpenApi } from '../openapi/document.ts'
import { contentType, type MediaType, mediaTypeName } from '../parse/media.ts'
import { checkJson } from '../parse/payload.ts'
import type { Preferences } from '../parse/preferences.ts'
import { type ApiRequest, canonicalPath, type HttpRequest, parseRequest } from '../parse/request.ts'
import { findTable, type PlannedAction, plan as planRequest } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import { DatabaseError } from '../postgres/errors.ts'
import type { Pool } from '../postgres/pool.ts'
import type { Table } from '../schema-cache/types.ts'
import { render } from '../sql/index.ts'
import { answer, errorAnswer, type HttpResponse } from './answer.ts'
import { restErrorOf } from './database-error.ts'
import { decides, execute, transact } from './execute.ts'
import type { State } from './state.ts'
import { Timing } from './timing.ts'
import { type SessionFacts, type TransactionMode, transactionSteps } from './transaction.ts'

export const version = '0.1.0'
/** How Proxy-Status and Server name the service. */
export const serviceName = 'espalier-rest'

/** What a request is answered with, and by whom it was asked: for the log. */
export type Answered = {
  readonly response: HttpResponse
  readonly role: string | undefined
  readonly error: RestError | undefined
  /** The statement that was run for it, without its values. */
  readonly sql: string | undefined
}

type Session = { role: string; claims: string; isAuthenticated: boolean; sql?: string }

async function authenticate(state: State, request: HttpRequest): Promise<Session> {
  const { role, claims, authenticated } = await state.authenticator.authenticate(request.headers.authorization)
  const asked = role ?? state.configuration.dbAnonRole
  if (asked === undefined) throw anonymousRefused()
  return { role: asked, claims: JSON.stringify({ ...claims, role: asked }), isAuthenticated: authenticated }
}

function sessionFacts(state: State, request: HttpRequest, schema: string, session: Session): SessionFacts {
  const { configuration } = state
  return {
    schema,
    extraSearchPath: configuration.dbExtraSearchPath,
    role: session.role,
    claims: session.claims,
    method: request.method,
    path: canonicalPath(request.path),
    headers: request.headers,
    timezone: undefined,
    settings: [...(state.roleSettings.get(session.role)?.settings ?? []), ...state.appSettings],
    preRequest: configuration.dbPreRequest,
  }
}

/** The end of the transaction that the client chose, where it may choose. */
function chosenEnd({ configuration }: State, { preferences }: ApiRequest): Preferences['tx'] {
  return configuration.dbTxEnd.endsWith('allow-override') ? preferences.tx : undefined
}

function transactionMode(state: State, plan: Plan, role: string, chosen: Preferences['tx']): TransactionMode {
  const end = chosen ?? (state.configuration.dbTxEnd.startsWith('rollback') ? 'rollback' : 'commit')
  const routineLevel = plan.kind === 'call' ? plan.routine.isolationLevel : null
  return {
    readOnly: plan.kind === 'read' || (plan.kind === 'call' && plan.readOnly),
    isolationLevel: routineLevel ?? state.roleSettings.get(role)?.isolationLevel,
    end: end === 'commit' && decides(plan) ? 'decide' : end,
  }
}

/** Postgres reads the values of a body, so it may be the one to find that they are no JSON. */
function rethrow(error: unknown, action: PlannedAction): never {
  const isJson = error instanceof DatabaseError && error.sqlState === '22P02' && /type json$/.test(error.message)
  if (isJson && 'payload' in action && action.payload?.kind === 'json') checkJson(action.payload)
  throw error
}

async function answerPlanned(
  state: State,
  pool: Pool,
  http: HttpRequest,
  request: ApiRequest,
  action: PlannedAction,
  session: Session,
  timing: Timing,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const plan = planRequest(request, action, state.cache, state.planSettings)
  const rendered = render(plan)
  session.sql = rendered.write?.text ?? rendered.main.text
  timing.mark('plan')
  const chosen = chosenEnd(state, request)
  const mode = transactionMode(state, plan, session.role, chosen)
  const facts = sessionFacts(state, http, request.schema, session)
  const routineSettings = plan.kind === 'call' ? plan.routine.settings : []
  const execution = execute(pool, {
    plan,
    rendered,
    facts: { ...facts, timezone: request.preferences.timezone, settings: [...facts.settings, ...routineSettings] },
    mode,
    prepared: state.configuration.dbPreparedStatements,
    signal,
  })
  const outcome = await execution.catch(error => rethrow(error, action))
  timing.mark('transaction')
  return answer({ request, plan, outcome, transactionEnd: chosen })
}

const openApiTypes = new Set(['application/openapi+json', 'application/json', '*/*'])

/** OpenAPI answers as itself, to whoever accepts JSON of any kind. */
function openApiType(accept: readonly MediaType[]): MediaType {
  if (accept.some(type => openApiTypes.has(mediaTypeName(type))))
    return { kind: 'named', name: 'application/openapi+json' }
  throw new RestError({
    status: 406,
    code: 'RST107',
    message: `None of these media types are available: ${accept.map(mediaTypeName).join(', ')}`,
  })
}

async function answerOpenApi(
  state: State,
  pool: Pool,
  http: HttpRequest,
  { schema, accept }: ApiRequest,
  session: Session,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const type = openApiType(accept)
  const { configuration, cache } = state
  const facts = sessionFacts(state, http, schema, session)
  const { before } = transactionSteps(facts, { readOnly: true, isolationLevel: undefined, end: 'commit' })
  const accessible =
    configuration.openapiMode === 'ignore-privileges'
      ? everythingIn(cache, schema)
      : await transact(pool, signal, async connection => {
          const results = await connection.run([...before, { text: accessibleSql, values: [schema] }], true)
          const rows = (results[before.length] ?? []).map(([kind, name, parameters]) => ({
            kind: String(kind),
            name: String(name),
            parameters: parameters == null ? null : JSON.parse(String(parameters)),
          }))
          // The shape is what accessibleSql selects.
          return accessibleOf(cache, schema, rows as AccessibleRow[])
        })
  const { openapiServerProxyUri: proxyUri } = configuration
  const document = renderOpenApi({
    ...accessible,
    cache,
    schema,
    extraSearchPath: configuration.dbExtraSearchPath,
    schemaDescription: cache.schemaDescriptions.get(schema) ?? null,
    ...(proxyUri === undefined ? {} : { proxyUri }),
    securityActive: configuration.openapiSecurityActive,
    host: configuration.serverHost,
    port: configuration.serverPort,
    version,
  })
  return { status: 200, headers: [['Content-Type', contentType(type)]], body: JSON.stringify(document) }
}

const allowed = (methods: readonly string[]): HttpResponse => ({
  status: 200,
  headers: [['Allow', ['OPTIONS', ...methods].join(',')]],
  body: '',
})

function tableMethods({ insertable, updatable, deletable, primaryKey }: Table): string[] {
  return [
    'GET',
    'HEAD',
    ...(insertable ? ['POST'] : []),
    ...(insertable && updatable && primaryKey.length > 0 ? ['PUT'] : []),
    ...(updatable ? ['PATCH'] : []),
    ...(deletable ? ['DELETE'] : []),
  ]
}

function functionMethods(state: State, schema: string, name: string): string[] {
  const overloads = state.cache.routines.get(schema)?.get(name)
  if (overloads === undefined) {
    throw new RestError({
      status: 404,
      code: 'RST202',
      message: `Could not find the function ${schema}.${name} in the schema cache`,
    })
  }
  return overloads.every(({ volatility }) => volatility === 'volatile') ? ['POST'] : ['GET', 'HEAD', 'POST']
}

/** Names are UTF-8 in headers as they are in requests'; Node writes a character for a byte. */
const headerBytes = (name: string): string => Buffer.from(name, 'utf8').toString('latin1')

async function respond(
  state: State,
  pool: Pool,
  http: HttpRequest,
  session: Session,
  timing: Timing,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const request = parseRequest(http, state.rules)
  timing.mark('parse')
  const { action, schema } = request
  const profile: [string, string][] = state.rules.schemas.length > 1 ? [['Content-Profile', headerBytes(schema)]] : []
  const response = await (() => {
    switch (action.kind) {
      case 'openapi':
        return answerOpenApi(state, pool, http, request, session, signal)
      case 'options-root':
        return allowed(['GET', 'HEAD'])
      case 'options':
        return allowed(tableMethods(findTable(state.cache, schema, action.relation)))
      case 'options-function':
        return allowed(functionMethods(state, schema, action.name))
      default:
        return answerPlanned(state, pool, http, request, action, session, timing, signal)
    }
  })()
  return profile.length === 0 ? response : { ...response, headers: [...response.headers, ...profile] }
}

/** Answers a request; every error becomes a response. */
export async function answerRequest(
  state: State,
  pool: Pool,
  http: HttpRequest,
  signal: AbortSignal,
): Promise<Answered> {
  const { configuration } = state
  const timing = new Timing()
  let session: Session | undefined
  const timed = (response: HttpResponse): HttpResponse => {
    if (!configuration.serverTimingEnabled) return response
    timing.mark('response')
    return { ...response, headers: [...response.headers, ['Server-Timing', timing.toString()]] }
  }
  try {
    session = await authenticate(state, http)
    timing.mark('jwt')
    const response = await respond(state, pool, http, session, timing, signal)
    return { response: timed(response), role: session.role, error: undefined, sql: session.sql }
  } catch (cause) {
    const error = restErrorOf(cause, session?.isAuthenticated === true)
    const response = errorAnswer(error, configuration.clientErrorVerbosity === 'verbose', serviceName)
    return { response: timed(response), role: session?.role, error, sql: session?.sql }
  }
}
