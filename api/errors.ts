/**
 * Every refusal of the API: one class, made by one function a kind, and the rule by which any other error becomes one.
 * What a client gets is `{code, message, reason?}` and never more than these functions put there.
 */
import { diskFullMessage, isClusterError } from '../cluster/index.ts'
import { databasesQuota } from '../crds/index.ts'
import { isRecord } from '../values/record.ts'

/** Refusals that concern the whole account; an open set. */
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

/** Seconds after which trying again makes sense: an operation in flight, another writer, a cluster that is away. */
export const retryAfter = { busy: 2, conflict: 1, unavailable: 2, fullDisk: 30 } as const

const withRetryAfter = (seconds: number) => ({
  headers: { 'Retry-After': String(Math.max(1, Math.ceil(seconds))) },
})

export const badRequest = (message: string): ApiError => new ApiError(400, message)
export const notFound = (what: string): ApiError => new ApiError(404, `${what} not found`)
export const forbidden = (message: string, reason?: RefusalReason): ApiError =>
  new ApiError(403, message, reason === undefined ? {} : { reason })
/** `seconds`: only where waiting helps, not where the user has to act first. */
export const conflict = (message: string, seconds?: number): ApiError =>
  new ApiError(409, message, seconds === undefined ? {} : withRetryAfter(seconds))
export const preconditionFailed = (message: string): ApiError => new ApiError(412, message)
export const tooManyRequests = (seconds: number): ApiError =>
  new ApiError(429, 'too many requests: slow down and try again', withRetryAfter(seconds))
export const unavailable = (message: string, cause?: unknown, seconds: number = retryAfter.unavailable): ApiError =>
  new ApiError(503, message, { ...withRetryAfter(seconds), cause })

/** `challenge` adds to WWW-Authenticate (RFC 6750, section 3); absent where no credential was given. */
export function unauthorized(message: string, challenge?: 'invalid_token'): ApiError {
  const error = challenge === undefined ? '' : `, error="${challenge}", error_description="${message}"`
  return new ApiError(401, message, { headers: { 'WWW-Authenticate': `Bearer realm="espalier"${error}` } })
}

/** What the framework refuses by itself, in our words. */
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

/** The quota that stands for the account's limit is told as that; any other is somebody else's. */
function quotaRefusal(message: string): ApiError {
  const { name, counted } = databasesQuota
  const limit = message.includes(`exceeded quota: ${name},`) ? message.split(`limited: ${counted}=`, 2)[1] : undefined
  const number = /^[0-9]+k?/.exec(limit ?? '')?.[0].replace('k', '000')
  return number === undefined ? forbidden('a quota of the account is used up') : limitReached(number)
}

/** By which a full disk is known: our own store's words, and etcd's. */
const fullDisk = [diskFullMessage, 'mvcc: database space exceeded']

/** The refusal that stands for any error. One it does not know is a 500 that says nothing. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isClusterError(error, 'Unavailable') && fullDisk.some(text => error.message.includes(text))) {
    return unavailable(
      'the disk of this installation is full: delete databases, branches or backups, or free some space, and try again',
      error,
      retryAfter.fullDisk,
    )
  }
  if (isClusterError(error, 'Unavailable', 'TooManyRequests', 'Expired')) {
    return unavailable('the cluster does not answer at present: try again', error)
  }
  if (isClusterError(error, 'Forbidden')) {
    // The API server's own words; any other prohibition is a fault of the installation.
    if (error.message.includes('exceeded quota')) return quotaRefusal(error.message)
    if (error.message.includes('is being terminated')) return unavailable('the account is being removed', error)
  }
  if (isClusterError(error, 'Conflict')) {
    return conflict('another request changed the same object at the same time: try again', retryAfter.conflict)
  }
  if (isRecord(error) && typeof error.code === 'string') {
    const known = frameworkErrors[error.code]
    if (known) return new ApiError(known[0], known[1], { cause: error })
  }
  if (isRecord(error) && typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) {
    return new ApiError(error.statusCode, 'the request cannot be read', { cause: error })
  }
  return new ApiError(500, 'internal error: the log says more, under the X-Request-Id of this answer', { cause: error })
}
