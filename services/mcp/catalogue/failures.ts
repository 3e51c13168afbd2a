/** Why the catalogue could not be read, as text for clients: no hosts, no addresses, no connection settings. */

import { DatabaseError } from '../../../wire/errors.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { ResultTooLarge } from '../database/errors.ts'
import { unreachable } from '../database/unreachable.ts'

export type Failure = {
  readonly message: string
  readonly code: string
  readonly retryable: boolean
  /** Whether the message is Postgres's own. */
  readonly isOfStatement?: true
}

const notReady = (name: string, error: unknown): Failure => ({
  ...unreachable(name, error),
  code: 'DATABASE_NOT_READY',
})

const failuresByState: Readonly<Record<string, Omit<Failure, 'message'>>> = {
  '42501': { code: 'INSUFFICIENT_PRIVILEGE', retryable: false },
  '57014': { code: 'QUERY_TIMEOUT', retryable: true },
}

/** undefined: not a failure of the database. */
export function failureOf(error: unknown, database: string): Failure | undefined {
  if (error instanceof ConnectionFailure || error instanceof AcquisitionTimeout) return notReady(database, error)
  if (error instanceof ResultTooLarge) return tooLarge
  if (!(error instanceof DatabaseError)) return undefined
  // Shutting down, starting up, too many connections.
  if (/^(57P..|53300)$/.test(error.sqlState)) return notReady(database, error)
  const { code, retryable } = failuresByState[error.sqlState] ?? { code: 'DATABASE_ERROR', retryable: false }
  return { message: `${error.message} (SQLSTATE ${error.sqlState})`, code, retryable, isOfStatement: true }
}

export const tooLarge: Failure = {
  message: 'The result would be larger than allowed.',
  code: 'RESULT_TOO_LARGE',
  retryable: false,
}

export const noDatabase: Failure = {
  message: 'No database is open to this caller.',
  code: 'NO_DATABASE',
  retryable: false,
}
