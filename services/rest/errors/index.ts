/** Converts any exception of a request to its error response. */
import { DatabaseError } from '../../../wire/errors.ts'
import { AuthenticationError } from '../../authentication/errors.ts'
import { HttpError } from '../../http/errors.ts'
import type { HttpResponse } from '../../http/message.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { serviceName } from '../product.ts'
import {
  acquisitionTimedOut,
  bodyTooLarge,
  claimsRefused,
  connectionLost,
  databaseClientFailed,
  internalError,
  memoryExhausted,
  secretMissing,
  tokenUndecodable,
} from './catalogue.ts'
import { refusalOfDatabase } from './database.ts'
import { RestError } from './rest-error.ts'

/** Unexpected errors are RSTX00 without details. */
export function restErrorOf(error: unknown, isAuthenticated: boolean): RestError {
  if (error instanceof RestError) return error
  if (error instanceof DatabaseError) return refusalOfDatabase(error, isAuthenticated)
  if (error instanceof AuthenticationError) return refusalOfToken(error)
  if (error instanceof HttpError) return refusalOfServer(error)
  if (error instanceof AcquisitionTimeout) return acquisitionTimedOut(error)
  if (error instanceof ConnectionFailure) return refusalOfConnection(error)
  return internalError(error)
}

function refusalOfToken({ refusal }: AuthenticationError): RestError {
  switch (refusal.kind) {
    case 'no secret':
      return secretMissing()
    case 'undecodable':
      return tokenUndecodable(refusal.reason)
    case 'claims':
      return claimsRefused(refusal.fault)
  }
}

function refusalOfServer({ fault }: HttpError): RestError {
  switch (fault.kind) {
    case 'body too large':
      return bodyTooLarge(fault.maximumBytes)
    case 'memory exhausted':
      return memoryExhausted()
  }
}

/** Unless Postgres is starting, stopping or has no free slot, Postgres has refused the login. */
function refusalOfConnection(failure: ConnectionFailure): RestError {
  const { sqlState, message } = failure
  const isOfLogin = sqlState !== undefined && !sqlState.startsWith('57P') && sqlState !== '53300'
  return isOfLogin ? databaseClientFailed(message, failure) : connectionLost(message, failure)
}

/** Converts an error to a response. `verbose`: includes details and hint. */
export function errorResponse(error: RestError, verbose: boolean): HttpResponse {
  const { code, message, details, hint, request } = error
  // JSON omits `request` if it is undefined.
  const body = verbose ? { code, message, details, hint, request } : { code, message, request }
  // A function chooses the code of an error that it raises. The header must not contain characters that HTTP forbids.
  const proxyStatus = /^[\x21-\x7e]+$/.test(code) && !code.includes('"') ? `${serviceName}; error=${code}` : serviceName
  return {
    status: error.status,
    ...(error.statusText === undefined ? {} : { statusText: error.statusText }),
    headers: [['Content-Type', 'application/json; charset=utf-8'], ['Proxy-Status', proxyStatus], ...error.headers],
    body: JSON.stringify(body),
  }
}
