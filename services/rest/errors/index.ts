/** From whatever a request has ended with to what its client is told. */
import { AuthenticationError } from '../../authentication/errors.ts'
import { HttpError } from '../../http/errors.ts'
import type { HttpResponse } from '../../http/message.ts'
import { AcquisitionTimeout, ConnectionFailure, DatabaseError } from '../../postgres/errors.ts'
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

/** What nobody foresaw is RSTX00 and says nothing of itself. */
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

/** Where Postgres said why, and it is neither that it goes or comes nor that it is full, the fault is in how it is logged in to. */
function refusalOfConnection(failure: ConnectionFailure): RestError {
  const { sqlState, message } = failure
  const isOfLogin = sqlState !== undefined && !sqlState.startsWith('57P') && sqlState !== '53300'
  return isOfLogin ? databaseClientFailed(message, failure) : connectionLost(message, failure)
}

/** An error as a response; `verbose` says details and hint as well. */
export function errorResponse(error: RestError, verbose: boolean): HttpResponse {
  const { code, message, details, hint, request } = error
  // A request that is undefined is not written.
  const body = verbose ? { code, message, details, hint, request } : { code, message, request }
  // The code of a raised error is the function's text: what HTTP cannot carry stays out of the header.
  const proxyStatus = /^[\x21-\x7e]+$/.test(code) && !code.includes('"') ? `${serviceName}; error=${code}` : serviceName
  return {
    status: error.status,
    ...(error.statusText === undefined ? {} : { statusText: error.statusText }),
    headers: [['Content-Type', 'application/json; charset=utf-8'], ['Proxy-Status', proxyStatus], ...error.headers],
    body: JSON.stringify(body),
  }
}
