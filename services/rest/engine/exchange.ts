/** One request on its way to its answer: what it is answered from, by whom it was asked, and when it is not wanted any more. */

import type { IncomingBody, RequestHead } from '../../http/message.ts'
import type { Pool } from '../../postgres/pool.ts'
import { type ApiRequest, canonicalPath } from '../parse/request.ts'
import type { Plan } from '../plan/types.ts'
import type { State } from './state.ts'
import type { Timing } from './timing.ts'
import type { SessionFacts } from './transaction.ts'

/** Who asks. */
export type Session = {
  readonly role: string
  /** JSON text, the role among them. */
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
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
  /** Told the statement that is run, without its values. */
  readonly onStatement: (sql: string) => void
  /** Told what is asked of Postgres, or may be: of a function that has others of its name, each. */
  readonly onPlans: (plans: readonly Plan[]) => void
}

/** What Postgres is told of a request to a schema. */
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

/** The same of a request that is planned, with what it prefers and what its function is set to. */
export function plannedFacts(exchange: Exchange, { schema, preferences }: ApiRequest, plan: Plan): SessionFacts {
  const facts = sessionFacts(exchange, schema)
  const routineSettings = plan.kind === 'call' ? plan.routine.settings : []
  return { ...facts, timezone: preferences.timezone, settings: [...facts.settings, ...routineSettings] }
}
