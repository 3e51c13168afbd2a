/**
 * All errors of the API: one class, one function for each kind, and the rule that converts any other error. A client
 * receives only `{code, message, reason?}` as these functions write it.
 */
import { diskFullMessage, isClusterError } from '../cluster/index.ts'
import { databasesQuota } from '../crds/index.ts'
import { isRecord } from '../values/record.ts'

/** Errors that concern the whole account. More reasons may be added. */
export const refusalReasons = ['membership_revoked', 'plan_expired', 'developer_plan_backup'] as const
type RefusalReason = (typeof refusalReasons)[number]

type ErrorBody = { code: number; message: string; reason?: RefusalReason }

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly reason: RefusalReason | undefined
  readonly headers: Record<string, string>
  constructor(
    status: number,
    message: string,
    options: { reason?: RefusalReason; headers?: Record<string, string>; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.status = status
    this.reason = options.reason
    this.headers = options.headers ?? {}
  }
  get body(): ErrorBody {
    return { code: this.status, message: this.message, ...(this.reason === undefined ? {} : { reason: this.reason }) }
  }
}

/**
 * After how many seconds a retry makes sense, by cause: a running operation, another writer, an unreachable cluster.
 */
export const retryAfter = { busy: 2, conflict: 1, unavailable: 2, fullDisk: 30 } as const

const withRetryAfter = (seconds: number) => ({
  headers: { 'Retry-After': String(Math.max(1, Math.ceil(seconds))) },
})

export const badRequest = (message: string): ApiError => new ApiError(400, message)
export const notFound = (what: string): ApiError => new ApiError(404, `${what} not found`)
export const forbidden = (message: string, reason?: RefusalReason): ApiError =>
  new ApiError(403, message, reason === undefined ? {} : { reason })
/** `seconds`: only if waiting helps, not if the user must act first. */
export const conflict = (message: string, seconds?: number): ApiError =>
  new ApiError(409, message, seconds === undefined ? {} : withRetryAfter(seconds))
export const preconditionFailed = (message: string): ApiError => new ApiError(412, message)
export const tooManyRequests = (seconds: number): ApiError =>
  new ApiError(429, 'too many requests: slow down and retry', withRetryAfter(seconds))
export const tooManyStreams = (most: number): ApiError =>
  new ApiError(429, `the account has ${most} event streams here: close one, then retry`, withRetryAfter(5))
export const unavailable = (message: string, cause?: unknown, seconds: number = retryAfter.unavailable): ApiError =>
  new ApiError(503, message, { ...withRetryAfter(seconds), cause })

/** `challenge` is added to WWW-Authenticate (RFC 6750, section 3). It is absent if the client sent no credential. */
export function unauthorized(message: string, challenge?: 'invalid_token'): ApiError {
  const error = challenge === undefined ? '' : `, error="${challenge}", error_description="${message}"`
  return new ApiError(401, message, { headers: { 'WWW-Authenticate': `Bearer realm="espalier"${error}` } })
}

/** The framework's own errors, with the API's messages. */
const frameworkErrors: Record<string, [status: number, message: string]> = {
  FST_ERR_CTP_BODY_TOO_LARGE: [413, 'the body must be at most 1 MiB long'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [415, 'Content-Type must be application/json'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [400, 'Content-Length does not match the body'],
  FST_ERR_CTP_EMPTY_TYPE: [415, 'Content-Type must be application/json'],
  FST_ERR_BAD_URL: [400, 'the path is not a valid URL path'],
  FST_ERR_MAX_PARAM_LENGTH: [400, 'the path is too long'],
}

export const limitReached = (limit: number | string): ApiError =>
  forbidden(`the account has reached its limit of ${limit} databases`)

/** Reports the quota of the account's limit as that limit. An administrator has set any other quota. */
function quotaRefusal(message: string): ApiError {
  const { name, counted } = databasesQuota
  const limit = message.includes(`exceeded quota: ${name},`) ? message.split(`limited: ${counted}=`, 2)[1] : undefined
  const number = /^[0-9]+k?/.exec(limit ?? '')?.[0].replace('k', '000')
  return number === undefined ? forbidden('a resource quota of the account is used up') : limitReached(number)
}

/** Messages of a full disk: the embedded store's message, and etcd's message. */
const fullDisk = [diskFullMessage, 'mvcc: database space exceeded']

/** Converts any error to an ApiError. An unknown error becomes a 500 without details. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isClusterError(error, 'Unavailable') && fullDisk.some(text => error.message.includes(text))) {
    return unavailable(
      'the disk of this installation is full: delete databases, branches or backups, or free some space, then retry',
      error,
      retryAfter.fullDisk,
    )
  }
  if (isClusterError(error, 'Unavailable', 'TooManyRequests', 'Expired')) {
    return unavailable('the cluster does not respond now: retry', error)
  }
  if (isClusterError(error, 'Forbidden')) {
    // The API server refuses the write because of a quota. Any other 403 is an error of the installation.
    if (error.message.includes('exceeded quota')) return quotaRefusal(error.message)
    if (error.message.includes('is being terminated')) return unavailable('the account is being removed', error)
  }
  if (isClusterError(error, 'Conflict')) {
    return conflict('another request changed the same object at the same time: retry', retryAfter.conflict)
  }
  if (isRecord(error) && typeof error.code === 'string') {
    const known = frameworkErrors[error.code]
    if (known) return new ApiError(known[0], known[1], { cause: error })
  }
  if (isRecord(error) && typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) {
    return new ApiError(error.statusCode, 'the request cannot be read', { cause: error })
  }
  return new ApiError(500, 'internal error: search the log for the X-Request-Id of this response', { cause: error })
}
