/** Opens sessions to databases. A session uses one of the database's roles. The number of sessions is limited. */
import { idOf } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import type { CredentialsOwner } from '../databases/credentials.ts'
import { ApiError, forbidden, unavailable } from '../errors.ts'
import { ConnectError, openConnection } from './connect.ts'
import { createSlots, limitOfDatabase } from './limits.ts'
import type { Plan } from './plan.ts'
import { Session } from './session.ts'
import { connectionsOf, targetOf } from './target.ts'

type Opening = Pick<Plan, 'mode' | 'role' | 'timeoutMs'> & {
  /** Whether the API itself wrote the statements. If not, they are from the request. */
  readonly isOwn?: boolean
}

export type SqlSessions = {
  /** @throws ApiError 403 if the installation does not allow the API to connect to databases */
  requireEnabled(): void
  /** The login ends when the signal aborts. @throws ApiError 409, 429, 503 */
  open(owner: CredentialsOwner, plan: Opening, signal: AbortSignal): Promise<Session>
  /** The number of connections that are reserved now. */
  readonly taken: number
}

export function createSqlSessions(context: ApiContext, isEnabled: boolean): SqlSessions {
  const slots = createSlots('SQL requests')
  return {
    requireEnabled() {
      if (!isEnabled) throw forbidden('SQL through the API is disabled in this installation (api.sql.enabled)')
    },
    async open(owner, { mode, role, timeoutMs, isOwn = false }, signal) {
      const target = await targetOf(context, owner, role)
      const namespace = owner.metadata.namespace ?? ''
      const release = slots.take(namespace, idOf(owner) ?? '', limitOfDatabase(connectionsOf(context, owner)))
      const isReadOnly = mode === 'read'
      try {
        const opened = await openConnection(target, { isReadOnly, statementTimeoutMs: timeoutMs, isOwn }, signal)
        const session = new Session(opened, isReadOnly)
        // Keeps the reservation after the response, because Postgres may still be ending the statement.
        session.closed.then(release, release)
        return session
      } catch (error) {
        release()
        throw error instanceof ConnectError ? refusalOf(error) : error
      }
    },
    get taken() {
      return slots.taken
    },
  }
}

/** Messages by SQLSTATE for failed logins after which a retry can succeed. */
const later: Readonly<Record<string, string>> = {
  '28P01': 'the password is being replaced: retry',
  '53300': 'all connections of the database are used: close some, then retry',
  '57P03': 'Postgres is starting or stopping: retry',
}

function refusalOf(error: ConnectError) {
  // The client has disconnected, so only the access log has this status.
  if (error.kind === 'canceled') return new ApiError(499, 'the client disconnected')
  if (error.kind === 'silent')
    return unavailable(
      "Postgres cannot be reached from the API: retry. If this continues, check that the database's NetworkPolicy admits the API: upgrade the operator, and set api.sql.enabled of the chart",
      error,
    )
  return unavailable(later[error.sqlState ?? ''] ?? 'Postgres does not accept connections now: retry', error)
}
