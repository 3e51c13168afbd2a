/**
 * Explains to clients why the catalogue could not be read. The text contains no hosts, addresses or connection
 * settings.
 */

import { DatabaseError } from '../../../wire/errors.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { ResultTooLarge } from '../database/errors.ts'
import { unreachable } from '../database/unreachable.ts'

export type Failure = {
  readonly message: string
  readonly code: string
  readonly retryable: boolean
  /** Whether `message` is an error message of Postgres. */
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

/** Returns undefined if the error is not a database failure. */
export function failureOf(error: unknown, database: string): Failure | undefined {
  if (error instanceof ConnectionFailure || error instanceof AcquisitionTimeout) return notReady(database, error)
  if (error instanceof ResultTooLarge) return tooLarge
  if (!(error instanceof DatabaseError)) return undefined
  // Postgres is shutting down, is starting up, or has too many connections.
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
  message: 'No database is available to this caller. An administrator can configure one or grant access.',
  code: 'NO_DATABASE',
  retryable: false,
}
