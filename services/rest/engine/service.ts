/** Answers one request: who asks, what is asked, how it is asked of Postgres, and what is said in return. */
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
import type { Asked } from '../shapes/shapes.ts'
import type { Rendered } from '../sql/index.ts'
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

/** What a request is answered with, and by whom it was asked: for the log. */
type Answered = {
  readonly response: HttpResponse
  readonly role: string | undefined
  readonly error: RestError | undefined
  /** The statement that was run for it, without its values. */
  readonly sql: string | undefined
  readonly refused: Refused | undefined
}

async function authenticate(state: State, request: RequestHead): Promise<Session> {
  const { role, claims, authenticated } = await state.authenticator.authenticate(request.headers.authorization)
  const asked = role ?? state.configuration.dbAnonRole
  if (asked === undefined) throw anonymousRefused()
  return { role: asked, claims: JSON.stringify({ ...claims, role: asked }), isAuthenticated: authenticated }
}

/** What is larger is taken only from who may write: the others have been let have as much by the first read of the socket. */
const largeBodyBytes = smallBodyBytes

/** The body of a request, read as it comes; of one that has none, what nothing makes. */
async function payloadOf(exchange: Exchange, asked: Asked, action: PlannedAction): Promise<Payload | undefined> {
  const { request } = asked
  if (request.body === undefined) return undefined
  const { body, timing } = exchange
  if (body.length === undefined || body.length > largeBodyBytes) {
    const plans = asked.plansWithoutBody(action)
    exchange.onPlans(plans)
    await admit(exchange, request.schema, plans)
  }
  const reader = payloadReader(request.body)
  await body.read(reader)
  timing.leaveOut()
  return reader.end()
}

async function answerPlanned(exchange: Exchange, asked: Asked, action: PlannedAction): Promise<HttpResponse> {
  const { state, pool, timing, signal } = exchange
  const { request } = asked
  const payload = await payloadOf(exchange, asked, action)
  const { plan, render } = asked.plan(action, payload)
  exchange.onPlans([plan])
  const chosen = chosenEnd(state, request.preferences)
  const mode = transactionMode(exchange, plan, chosen)
  const isStreamed = !isTagged(state, exchange.http) && canStream(plan, mode)
  const delivery = isStreamed ? deliveryOf(plan, state.cache) : 'whole'
  const whole = render('whole')
  const isByRows = delivery !== 'whole' && state.answerSizes.isLarge(whole.main.text, isUnfiltered(plan))
  const rendered = isByRows ? render(delivery) : whole
  exchange.onStatement(rendered.write?.text ?? rendered.main.text)
  timing.mark('plan')
  const facts = plannedFacts(exchange, request, plan)
  const outcome = await execute(pool, {
    plan,
    rendered,
    facts,
    mode,
    prepared: state.configuration.dbPreparedStatements,
    isStreamed,
    sharing: sharingOf(state, plan, rendered, mode),
    statementTimeoutMs: statementTimeoutMs(facts.settings) ?? state.statementTimeoutMs,
    signal,
  })
  timing.mark('transaction')
  if (delivery !== 'whole') learnSize(state, whole.main.text, outcome)
  const { keysetParameter, urlUseLegacyTargetNames } = state.configuration
  return streamed(outcome, () => {
    // Of what is still to come, nobody has looked yet at how much it is.
    checkRows(plan, outcome.rows)
    return answer({
      ...{ request, plan, outcome, transactionEnd: chosen, keysetParameter },
      warnsOfTargetNames: urlUseLegacyTargetNames === true,
    })
  })
}

function sharingOf(
  { configuration, durations }: State,
  plan: Plan,
  rendered: Rendered,
  mode: TransactionMode,
): Execution['sharing'] {
  const { dbPreRequest, dbPreparedStatements } = configuration
  // What runs before each request may do anything; and what is not prepared has a pooler before it, which may think of its own when a transaction ends.
  if (dbPreRequest !== undefined || !dbPreparedStatements || !canShare(plan, rendered, mode)) return undefined
  const { text } = rendered.main
  return {
    expectedMs: durations.ofShort(text),
    onTook: (tookMs, bytes) => durations.learn(text, tookMs, bytes),
  }
}

/** Row by row, nothing says how large an answer is that has begun: it stays what it was taken for. */
function learnSize({ answerSizes }: State, text: string, { body, coming }: Outcome): void {
  const bytes = coming === undefined ? body.length : coming.length
  if (bytes !== undefined) answerSizes.learn(text, bytes)
}

/** The answer of a body that is still to come, which is given up where the answer has none. */
function streamed({ coming }: Outcome, make: () => HttpResponse): HttpResponse {
  if (coming === undefined) return make()
  try {
    const made = make()
    if (made.status !== 204 && made.status !== 304) {
      return { ...made, body: undefined, stream: coming.writeTo, streamLength: coming.length }
    }
    coming.giveUp()
    return made
  } catch (error) {
    coming.giveUp()
    throw error
  }
}

async function respond(exchange: Exchange): Promise<HttpResponse> {
  const { state, http, timing, session } = exchange
  if (isBatch(exchange)) return answerBatch(exchange)
  const { role } = session
  const asked = state.shapes.ask(http, { role, limits: limitsOf(state.roleLimits, role) })
  const { request } = asked
  timing.mark('parse')
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
        return answerPlanned(exchange, asked, action)
    }
  })()
  return forCaches(state, http, withProfile(state, schema, response))
}

/** Of what all workers may have at once, what this one may. */
const shareOf = (concurrency: number | undefined, { configuration }: State): number | undefined =>
  concurrency === undefined ? undefined : Math.ceil(concurrency / configuration.serverWorkers)

/** Answers a request; every error becomes a response. The body is read once it is known who asks, and for what: whoever may not ask is not listened to. */
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
    timing.mark('response')
    return { ...response, headers: [...response.headers, ['Server-Timing', timing.toString()]] }
  }
  try {
    session = await authenticate(state, http)
    timing.mark('jwt')
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
