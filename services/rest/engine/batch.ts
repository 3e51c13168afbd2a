/**
 * Runs several requests in one transaction: all are committed, or none. The service validates all requests before the
 * first one runs. Each request runs with the same role as on its own, but sees the changes of earlier requests. An
 * error contains the index of its request, from 0.
 */
import { setImmediate } from 'node:timers/promises'
import { piecesOf } from '../../../wire/messages.ts'
import { smallBodyBytes } from '../../http/budget.ts'
import { HttpError } from '../../http/errors.ts'
import type { HttpResponse } from '../../http/message.ts'
import type { Connection } from '../../postgres/connection.ts'
import { transact } from '../../postgres/transact.ts'
import { BatchAnswer } from '../batch/answer.ts'
import { type BatchEntry, bodyBytes, parseEntry } from '../batch/entry.ts'
import { elementsOf } from '../batch/slices.ts'
import {
  batchEntryWrong,
  batchTooLong,
  batchUnsigned,
  batchWrong,
  ofRequest,
  unsupportedMethod,
} from '../errors/catalogue.ts'
import { restErrorOf } from '../errors/index.ts'
import { limited } from '../limits/plan-limits.ts'
import { limitsOf } from '../limits/role-limits.ts'
import { bodyForm, payloadReader } from '../parse/payload.ts'
import { appliedPreferences, type Preferences, parsePreferences } from '../parse/preferences.ts'
import { type ApiRequest, canonicalPath, parseRequest } from '../parse/request.ts'
import { type PlannedAction, plan as planRequest } from '../plan/index.ts'
import type { Plan } from '../plan/types.ts'
import { type Rendered, render } from '../sql/index.ts'
import { answer } from './answer.ts'
import { type Exchange, plannedFacts } from './exchange.ts'
import { runOn } from './execute.ts'
import { chosenEnd, endOf, isolationLevelOf, isReadOnly } from './mode.ts'
import { allowed } from './options.ts'
import { withProfile } from './profile.ts'
import { retrying } from './retry.ts'
import { endSteps, type SessionFacts, transactionSteps } from './transaction.ts'
import { writing } from './writing.ts'

export const isBatch = ({ http, state }: Exchange): boolean =>
  state.configuration.batchPath !== undefined && canonicalPath(http.path) === state.configuration.batchPath

/** One planned request. */
type Prepared = {
  readonly request: ApiRequest
  readonly plan: Plan
  readonly rendered: Rendered
  readonly facts: SessionFacts
}

/**
 * The body's text. The service parses it before it knows the required privileges. So it accepts a large body only with
 * a token.
 */
async function read({ http, body, session, timing }: Exchange): Promise<string> {
  const isLarge = body.length === undefined || body.length > smallBodyBytes
  if (isLarge && !session.isAuthenticated) throw batchUnsigned(smallBodyBytes)
  const form = bodyForm(http.headers['content-type'], true, true)
  if (form.type !== 'json') throw batchWrong()
  const reader = payloadReader(form)
  await body.read(reader)
  timing.exclude()
  const payload = reader.end()
  if (payload.kind !== 'json') throw batchWrong()
  const { json } = payload
  const text = typeof json === 'string' ? json : Buffer.concat(piecesOf(json)).toString('utf8')
  // The reader accepts also objects and scalars. A batch must be a list.
  if (!/^\s*\[/.test(text)) throw batchWrong()
  return text
}

/** Checks that a batch may contain the request: no nested batch, and only requests that run a statement. */
function plannedAction({ action }: ApiRequest): PlannedAction {
  switch (action.kind) {
    case 'openapi':
    case 'options':
    case 'options-root':
    case 'options-function':
      throw batchEntryWrong('path must be the path of a relation or a function')
    default:
      return action
  }
}

function prepare(exchange: Exchange, { head, body }: BatchEntry): Prepared {
  const { state, session } = exchange
  if (isBatch({ ...exchange, http: head }))
    throw batchEntryWrong('path must not be the batch path: batches cannot be nested')
  const request = parseRequest(head, state.rules)
  const action = plannedAction(request)
  const form = request.body
  const reader = form === undefined ? undefined : payloadReader(form)
  if (form !== undefined && body !== undefined) reader?.push(bodyBytes(body, form))
  const planned = planRequest(request, action, reader?.end(), state.cache, state.planSettings)
  const plan = limited(planned, session.role, limitsOf(state.roleLimits, session.role))
  const facts = plannedFacts({ ...exchange, http: head }, request, plan)
  return { request, plan, rendered: render(plan), facts }
}

const levels = ['serializable', 'repeatable read', 'read committed', 'read uncommitted']

/** The strictest isolation level that the requests need. */
const strictest = (exchange: Exchange, batch: readonly Prepared[]): string | undefined => {
  const isolationLevels = batch.map(({ plan }) => isolationLevelOf(exchange, plan))
  return levels.find(level => isolationLevels.includes(level))
}

type Run = {
  readonly batch: readonly Prepared[]
  readonly end: 'commit' | 'rollback'
  /** Called with the index of the running request. Undefined if no request runs. */
  readonly onRequest: (index: number | undefined) => void
}

/**
 * Runs the statements in one transaction, in order. If the batch writes, each read runs in a read-only subtransaction.
 */
async function run(exchange: Exchange, { batch, end, onRequest }: Run): Promise<Buffer> {
  const { pool, signal, state, body: sent } = exchange
  const {
    dbPreparedStatements: prepared,
    keysetParameter,
    serverMaxBodyBytes,
    urlUseLegacyTargetNames,
  } = state.configuration
  const level = strictest(exchange, batch)
  const reads = batch.every(({ plan }) => isReadOnly(plan))
  const runOnce = async (connection: Connection) => {
    const answers = new BatchAnswer(serverMaxBodyBytes)
    const begin = { text: `BEGIN${level === undefined ? '' : ` ISOLATION LEVEL ${level.toUpperCase()}`}`, values: [] }
    await connection.run([begin], prepared)
    for (const [index, { request, plan, rendered, facts }] of batch.entries()) {
      onRequest(index)
      const readOnly = isReadOnly(plan)
      const isApart = readOnly && !reads
      const { before } = transactionSteps(facts, { readOnly, isolationLevel: undefined, end: 'commit' })
      const savepoint = isApart ? [{ text: 'SAVEPOINT rst_read', values: [] }] : []
      const release = isApart ? [{ text: 'RELEASE SAVEPOINT rst_read', values: [] }] : []
      // The previous request left another role. Only the login role may change some of the settings below, so switch
      // back to it.
      const login = index === 0 ? [] : [{ text: 'SET LOCAL ROLE NONE', values: [] }]
      const first = [...savepoint, ...login, ...before]
      const outcome = await runOn(connection, { plan, rendered, prepared }, first, release)
      const answered = answer({
        ...{ request, plan, outcome, transactionEnd: undefined, keysetParameter },
        warnsOfTargetNames: urlUseLegacyTargetNames === true,
      })
      answers.add(plan, withProfile(state, request.schema, answered))
    }
    onRequest(undefined)
    const answered = answers.end()
    // Reserve the response's memory before the commit: if this fails, the batch is rolled back.
    if (!sent.reserve(answered.length)) throw new HttpError({ kind: 'memory exhausted' })
    await connection.run(endSteps(end), prepared)
    return answered
  }
  return transact(pool, signal, connection =>
    reads ? runOnce(connection) : writing(connection, () => runOnce(connection)),
  )
}

export async function answerBatch(exchange: Exchange): Promise<HttpResponse> {
  const { http, state, session, timing, signal } = exchange
  if (http.method === 'OPTIONS') return allowed(['POST'])
  if (http.method !== 'POST') throw unsupportedMethod(http.method)
  const preferences: Pick<Preferences, 'tx'> = parsePreferences(http.headers.prefer, state.rules.timeZones)
  const { batchMaxRequests } = state.configuration
  const entries = elementsOf(await read(exchange), batchMaxRequests + 1)
  if (entries.length > batchMaxRequests) throw batchTooLong(batchMaxRequests)
  const chosen = chosenEnd(state, preferences)
  let current: number | undefined
  const onRequest = (index: number | undefined) => {
    current = index
  }
  try {
    const batch: Prepared[] = []
    for (const [index, written] of entries.entries()) {
      current = index
      batch.push(prepare(exchange, parseEntry(written, http)))
      // Yield the event loop to other requests: preparing a hundred long requests takes seconds.
      await setImmediate()
    }
    onRequest(undefined)
    exchange.onPlans(batch.map(({ plan }) => plan))
    exchange.onStatement(batch.map(({ rendered }) => rendered.write?.text ?? rendered.main.text).join(';\n'))
    timing.record('plan')
    const body = await retrying(signal, () => run(exchange, { batch, end: endOf(state, chosen), onRequest }))
    timing.record('transaction')
    const applied = appliedPreferences({ tx: chosen })
    const headers: [string, string][] = applied === undefined ? [] : [['Preference-Applied', applied]]
    return { status: 200, headers: [['Content-Type', 'application/json; charset=utf-8'], ...headers], body }
  } catch (error) {
    throw current === undefined ? error : ofRequest(current, restErrorOf(error, session.isAuthenticated))
  }
}
