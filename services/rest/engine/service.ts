/** Answers a request: authenticates, plans, runs and responds. */
import { smallBodyBytes } from '../../http/budget.ts'
import type { HttpResponse, IncomingBody, RequestHead } from '../../http/message.ts'
import type { Pool } from '../../postgres/pool.ts'
import { anonymousRefused } from '../errors/catalogue.ts'
import { errorResponse, restErrorOf } from '../errors/index.ts'
import type { RestError } from '../errors/rest-error.ts'
import { checkRows } from '../limits/plan-limits.ts'
import { limitsOf } from '../limits/role-limits.ts'
import { type Payload, payloadReader } from '../parse/payload.ts'
import { findTable } from '../plan/context.ts'
import { deliveryOf, isUnfiltered } from '../plan/delivery.ts'
import { type PlannedAction, routineName } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import type { Refused } from '../refusals/log.ts'
import type { Rendered } from '../sql/index.ts'
import type { PreparedRequest } from '../templates/templates.ts'
import { admit } from './admission.ts'
import { answer } from './answer.ts'
import { answerBatch, isBatch } from './batch.ts'
import { forCaches, isTagged } from './caching.ts'
import { type Exchange, plannedFacts, type Session } from './exchange.ts'
import { type Execution, execute } from './execute.ts'
import { canShare, canStream, chosenEnd, transactionMode } from './mode.ts'
import { answerOpenApi } from './openapi.ts'
import { allowed, functionMethods, tableMethods } from './options.ts'
import type { Outcome } from './outcome.ts'
import { withProfile } from './profile.ts'
import { statementTimeoutMs } from './role-settings.ts'
import type { State } from './state.ts'
import { Timing } from './timing.ts'
import type { TransactionMode } from './transaction.ts'

/** The response, with the role, error and statement for the log. */
type Answered = {
  readonly response: HttpResponse
  readonly role: string | undefined
  readonly error: RestError | undefined
  /** The statement that ran, without its values. */
  readonly sql: string | undefined
  readonly refused: Refused | undefined
}

async function authenticate(state: State, request: RequestHead): Promise<Session> {
  const { role, claims, authenticated } = await state.authenticator.authenticate(request.headers.authorization)
  const requestedRole = role ?? state.configuration.dbAnonRole
  if (requestedRole === undefined) throw anonymousRefused()
  return {
    role: requestedRole,
    claims: JSON.stringify({ ...claims, role: requestedRole }),
    isAuthenticated: authenticated,
  }
}

/**
 * Larger bodies are read only after the write privilege is checked. Smaller bodies arrive with the first read of the
 * socket.
 */
const largeBodyBytes = smallBodyBytes

/** Reads a request's body, also an empty one. Undefined if the request takes no body. */
async function payloadOf(
  exchange: Exchange,
  prepared: PreparedRequest,
  action: PlannedAction,
): Promise<Payload | undefined> {
  const { request } = prepared
  if (request.body === undefined) return undefined
  const { body, timing } = exchange
  if (body.length === undefined || body.length > largeBodyBytes) {
    const plans = prepared.plansWithoutBody(action)
    exchange.onPlans(plans)
    await admit(exchange, request.schema, plans)
  }
  const reader = payloadReader(request.body)
  await body.read(reader)
  timing.exclude()
  return reader.end()
}

async function answerPlanned(
  exchange: Exchange,
  prepared: PreparedRequest,
  action: PlannedAction,
): Promise<HttpResponse> {
  const { state, pool, timing, signal } = exchange
  const { request } = prepared
  const payload = await payloadOf(exchange, prepared, action)
  const { plan, render } = prepared.plan(action, payload)
  exchange.onPlans([plan])
  const chosen = chosenEnd(state, request.preferences)
  const mode = transactionMode(exchange, plan, chosen)
  const isStreamed = !isTagged(state, exchange.http) && canStream(plan, mode)
  const delivery = isStreamed ? deliveryOf(plan, state.cache) : 'whole'
  const complete = render('whole')
  const isByRows = delivery !== 'whole' && state.answerSizes.isLarge(complete.main.text, isUnfiltered(plan))
  const rendered = isByRows ? render(delivery) : complete
  exchange.onStatement(rendered.write?.text ?? rendered.main.text)
  timing.record('plan')
  const facts = plannedFacts(exchange, request, plan)
  const outcome = await execute(pool, {
    plan,
    rendered,
    facts,
    mode,
    prepared: state.configuration.dbPreparedStatements,
    isStreamed,
    shared: sharedRunOf(state, plan, rendered, mode),
    statementTimeoutMs: statementTimeoutMs(facts.settings) ?? state.statementTimeoutMs,
    signal,
  })
  timing.record('transaction')
  if (delivery !== 'whole') recordSize(state, complete.main.text, outcome)
  const { keysetParameter, urlUseLegacyTargetNames } = state.configuration
  return streamed(outcome, () => {
    // The service has not yet checked a stream's result against the row limit.
    checkRows(plan, outcome.rows)
    return answer({
      ...{ request, plan, outcome, transactionEnd: chosen, keysetParameter },
      warnsOfTargetNames: urlUseLegacyTargetNames === true,
    })
  })
}

function sharedRunOf(
  { configuration, durations }: State,
  plan: Plan,
  rendered: Rendered,
  mode: TransactionMode,
): Execution['shared'] {
  const { dbPreRequest, dbPreparedStatements } = configuration
  // Not shared with a pre-request function, which may change the session. Not shared behind a pooler either: statements
  // are unprepared, and the pooler may decide when a transaction ends.
  if (dbPreRequest !== undefined || !dbPreparedStatements || !canShare(plan, rendered, mode)) return undefined
  const { text } = rendered.main
  return {
    expectedMs: durations.ofShort(text),
    onTook: (tookMs, bytes) => durations.record(text, tookMs, bytes),
  }
}

/** Once rows are streamed one by one, the size is unknown. The guess does not change. */
function recordSize({ answerSizes }: State, text: string, { body, stream }: Outcome): void {
  const bytes = stream === undefined ? body.length : stream.length
  if (bytes !== undefined) answerSizes.record(text, bytes)
}

/** The response with a streamed body. If the response has no body, the service abandons the stream. */
function streamed({ stream }: Outcome, make: () => HttpResponse): HttpResponse {
  if (stream === undefined) return make()
  try {
    const made = make()
    if (made.status !== 204 && made.status !== 304) {
      return { ...made, body: undefined, stream: stream.writeTo, streamLength: stream.length }
    }
    stream.abandon()
    return made
  } catch (error) {
    stream.abandon()
    throw error
  }
}

async function respond(exchange: Exchange): Promise<HttpResponse> {
  const { state, http, timing, session } = exchange
  if (isBatch(exchange)) return answerBatch(exchange)
  const { role } = session
  const prepared = state.templates.prepare(http, { role, limits: limitsOf(state.roleLimits, role) })
  const { request } = prepared
  timing.record('parse')
  const { action, schema } = request
  const response = await (() => {
    switch (action.kind) {
      case 'openapi':
        return answerOpenApi(exchange, request)
      case 'options-root':
        return allowed(['GET', 'HEAD'])
      case 'options':
        return allowed(tableMethods(findTable(state.cache, schema, action.relation)))
      case 'options-function':
        return allowed(functionMethods(state.cache, routineName(action, schema)))
      default:
        return answerPlanned(exchange, prepared, action)
    }
  })()
  return forCaches(state, http, withProfile(state, schema, response))
}

/** This worker's share of the total limit. */
const shareOf = (concurrency: number | undefined, { configuration }: State): number | undefined =>
  concurrency === undefined ? undefined : Math.ceil(concurrency / configuration.serverWorkers)

/**
 * Answers a request. Every error becomes a response. Reads the body after authentication. A large body is read only
 * after the write privilege is checked.
 */
export async function answerRequest(
  state: State,
  pool: Pool,
  http: RequestHead,
  body: IncomingBody,
  signal: AbortSignal,
): Promise<Answered> {
  const { configuration } = state
  const timing = new Timing()
  let session: Session | undefined
  let sql: string | undefined
  let plans: readonly Plan[] = []
  const onPlans = (list: readonly Plan[]) => {
    plans = list
  }
  const onStatement = (text: string) => {
    sql = text
  }
  const timed = (response: HttpResponse): HttpResponse => {
    if (!configuration.serverTimingEnabled) return response
    timing.record('response')
    return { ...response, headers: [...response.headers, ['Server-Timing', timing.toString()]] }
  }
  try {
    session = await authenticate(state, http)
    timing.record('jwt')
    const exchange: Exchange = { state, pool, http, body, session, timing, signal, onStatement, onPlans }
    const { concurrency } = limitsOf(state.roleLimits, session.role)
    const response = await state.inFlight.admit(session.role, shareOf(concurrency, state), signal, () =>
      respond(exchange),
    )
    return { response: timed(response), role: session.role, error: undefined, sql, refused: undefined }
  } catch (cause) {
    const error = restErrorOf(cause, session?.isAuthenticated === true)
    const response = errorResponse(error, configuration.clientErrorVerbosity === 'verbose')
    const role = session?.role
    const refused: Refused = { cause, role, plans, preRequest: configuration.dbPreRequest }
    return { response: timed(response), role, error, sql, refused }
  }
}
