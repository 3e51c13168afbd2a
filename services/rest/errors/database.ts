/**
 * Converts Postgres errors to HTTP errors: the status of each class of SQLSTATE, and errors that functions raise on
 * purpose.
 */

import { isRecord } from '../../../values/record.ts'
import type { DatabaseError } from '../../../wire/errors.ts'
import { bearerChallenge } from '../../authentication/challenge.ts'
import { isHeaderName, isHeaderValue } from '../../http/headers.ts'
import { invalidRaiseDetail, invalidRaiseMessage } from './catalogue.ts'
import { type Json, RestError, retryAfter } from './rest-error.ts'

/** The longest prefix of an SQLSTATE in this table decides. */
const statuses = new Map<string, number>([
  ['08', 503],
  ['09', 500],
  ['0L', 403],
  ['0P', 403],
  ['21000', 500],
  ['23503', 409],
  ['23505', 409],
  ['25', 500],
  ['25006', 405],
  ['28', 403],
  ['2D', 500],
  ['38', 500],
  ['39', 500],
  ['3B', 500],
  ['40', 500],
  ['42883', 404],
  ['42P01', 404],
  ['42P17', 500],
  ['53', 503],
  ['53400', 500],
  ['54', 500],
  ['55', 500],
  ['57', 500],
  ['58', 500],
  ['F0', 500],
  ['HV', 500],
  ['P0', 500],
  ['P0001', 400],
  ['XX', 500],
])

function statusOf({ sqlState, message, isFatal }: DatabaseError, isAuthenticated: boolean): number {
  // Postgres shuts down and closes its connections. It rolls running transactions back, and clients may retry them.
  if (isFatal && sqlState.startsWith('57')) return 503
  if (sqlState === '42501') return isAuthenticated ? 403 : 400
  // If the role of a token does not exist, the token is at fault, not the server.
  if (sqlState === '22023' && /^role ".*" does not exist$/s.test(message)) return 401
  // safeupdate refuses writes to a full table.
  if (sqlState === '21000' && message.includes('requires a WHERE clause')) return 400
  const custom = /^PT([2-9][0-9]{2})$/.exec(sqlState)
  if (custom !== null) return Number(custom[1])
  if (sqlState.startsWith('PT')) return 500
  for (let length = 5; length >= 2; length--) {
    const status = statuses.get(sqlState.slice(0, length))
    if (status !== undefined) return status
  }
  return 400
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const optionalText = (value: unknown): value is string | null | undefined =>
  value === undefined || value === null || typeof value === 'string'

/** `RAISE SQLSTATE 'RST'` with JSON in its message and detail: the function chooses the full response. */
function raised({ sqlState, message, detail }: DatabaseError): RestError {
  const fields = parsed(message)
  if (
    !isRecord(fields) ||
    typeof fields.code !== 'string' ||
    typeof fields.message !== 'string' ||
    !optionalText(fields.details) ||
    !optionalText(fields.hint)
  ) {
    return invalidRaiseMessage(sqlState, message)
  }
  const invalid = () => invalidRaiseDetail(sqlState, detail)
  if (detail === null) return invalid()
  const response = parsed(detail)
  if (!isRecord(response)) return invalid()
  const { status, status_text: statusText, headers = {} } = response
  const isStatus = typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 999
  if (!isStatus || !optionalText(statusText) || !isRecord(headers)) return invalid()
  const list: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== 'string' || !isHeaderName(name) || !isHeaderValue(value)) return invalid()
    list.push([name, value])
  }
  if (status === 503 && !list.some(([name]) => name.toLowerCase() === 'retry-after')) list.push(retryAfter)
  return new RestError({
    status,
    ...(typeof statusText === 'string' && isHeaderValue(statusText) ? { statusText } : {}),
    code: fields.code,
    message: fields.message,
    details: (fields.details ?? null) satisfies Json,
    hint: fields.hint ?? null,
    headers: list,
  })
}

export function refusalOfDatabase(error: DatabaseError, isAuthenticated: boolean): RestError {
  // Functions written for PostgREST raise PGRST.
  if (error.sqlState === 'RST' || error.sqlState === 'RST00' || error.sqlState === 'PGRST') return raised(error)
  const status = statusOf(error, isAuthenticated)
  return new RestError(
    {
      status,
      code: error.sqlState,
      message: error.message,
      details: error.detail,
      hint: error.hint,
      // RFC 9110, section 15.5.2: a 401 contains a challenge.
      headers: status === 401 ? [bearerChallenge()] : status === 503 ? [retryAfter] : [],
    },
    error,
  )
}
