/** Converts search failures to API errors, and decides which searches are retried. */
import { DatabaseError } from '../../../wire/errors.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { RagError } from '../errors.ts'

/** Messages for errors in which Postgres itself did not respond. */
const messages = {
  unreachable: 'the database cannot be reached',
  busy: 'no connection to the database became free in time',
  silent: 'the database did not describe its tables in time',
  late: 'did not respond in time',
}
export const didNotAnswer = messages.late
/** Whether an error of the health check means that Postgres itself failed. False for a missing table or column. */
export const isUnreachable = (message: unknown): boolean =>
  Object.values(messages).some(one => one === message) || /^did not answer within/.test(String(message))

/** A table or its columns have changed since the table was described, or since a statement was prepared. */
const changed = new Set(['42P01', '42703', '42704', '42P10', '42883', '0A000', '26000', '42P05', '3F000'])
/** Postgres is stopping or starting. */
const stopped = new Set(['57P01', '57P02', '57P03', '08006'])
/** The database has ended the connection, or has cancelled the statement on a standby. */
const ended = new Set([...stopped, '40001'])

/**
 * Whether the same search may succeed after the tables are described again. Searches write nothing, so any search may
 * be repeated.
 */
export const isWorthRetrying = (error: unknown): boolean =>
  error instanceof ConnectionFailure ||
  (error instanceof DatabaseError && (changed.has(error.sqlState) || ended.has(error.sqlState)))

/** Whether a value or an operator of a filter may have caused the error. */
export const mayBeOfFilter = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseError &&
  (/^22/.test(error.sqlState) || ['42883', '42804', '42725', '42846', '42704', '42P18'].includes(error.sqlState))

export function asRagError(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof RagError) return error
  if (signal.aborted) return signal.reason
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return new RagError('REQUEST_TIMEOUT', messages.silent, error)
  }
  if (error instanceof AcquisitionTimeout) {
    return new RagError('REQUEST_TIMEOUT', messages.busy, error)
  }
  if (error instanceof ConnectionFailure || (error instanceof DatabaseError && stopped.has(error.sqlState)))
    return new RagError('DATABASE_UNAVAILABLE', messages.unreachable, error)
  if (!(error instanceof DatabaseError)) return error
  if (error.sqlState === '57014')
    return new RagError('REQUEST_TIMEOUT', 'the database took too long for the search', error)
  return new RagError('EXECUTION_ERROR', `the database refused the search (SQLSTATE ${error.sqlState})`, error)
}
