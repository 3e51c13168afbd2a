/** One request with its state, its caller and its abort signal. */

import type { IncomingBody, RequestHead } from '../../http/message.ts'
import type { Pool } from '../../postgres/pool.ts'
import { type ApiRequest, canonicalPath } from '../parse/request.ts'
import type { Plan } from '../plan/types.ts'
import type { State } from './state.ts'
import type { Timing } from './timing.ts'
import type { SessionFacts } from './transaction.ts'

/** The authenticated caller. */
export type Session = {
  readonly role: string
  /** The claims as JSON text, including the role. */
  readonly claims: string
  readonly isAuthenticated: boolean
}

export type Exchange = {
  readonly state: State
  readonly pool: Pool
  readonly http: RequestHead
  readonly body: IncomingBody
  readonly session: Session
  readonly timing: Timing
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** Called with the statement that runs, without its values. */
  readonly onStatement: (sql: string) => void
  /** Called with the plans of the request. An overloaded function has a plan for each candidate. */
  readonly onPlans: (plans: readonly Plan[]) => void
}

/** The transaction settings for a request to a schema. */
export function sessionFacts({ state, http, session }: Exchange, schema: string): SessionFacts {
  const { configuration } = state
  return {
    schema,
    extraSearchPath: configuration.dbExtraSearchPath,
    role: session.role,
    claims: session.claims,
    method: http.method,
    path: canonicalPath(http.path),
    headers: http.headers,
    timezone: undefined,
    settings: [...(state.roleSettings.get(session.role)?.settings ?? []), ...state.appSettings],
    preRequest: configuration.dbPreRequest,
  }
}

/** The transaction settings for a planned request, including its preferences and its function's settings. */
export function plannedFacts(exchange: Exchange, { schema, preferences }: ApiRequest, plan: Plan): SessionFacts {
  const facts = sessionFacts(exchange, schema)
  const routineSettings = plan.kind === 'call' ? plan.routine.settings : []
  return { ...facts, timezone: preferences.timezone, settings: [...facts.settings, ...routineSettings] }
}
