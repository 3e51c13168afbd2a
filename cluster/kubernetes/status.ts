/** Converts error responses of the API server (metav1.Status, or other text from a proxy) to ClusterErrors. */
import { z } from 'zod'
import { ClusterError, type ClusterErrorReason, KindNotServedError } from '../errors.ts'

/** The fields of metav1.Status that are used; all of them can be absent. */
const status = z.object({
  kind: z.literal('Status'),
  message: z.string().catch(''),
  reason: z.string().catch(''),
  code: z.number().catch(0),
  details: z
    .object({
      kind: z.string().optional().catch(undefined),
      causes: z.array(z.object({ reason: z.string().optional().catch(undefined) })).catch([]),
    })
    .partial()
    .catch({}),
})
type Status = z.output<typeof status>

const byReason: Record<string, ClusterErrorReason> = {
  NotFound: 'NotFound',
  AlreadyExists: 'AlreadyExists',
  Conflict: 'Conflict',
  Invalid: 'Invalid',
  RequestEntityTooLarge: 'Invalid',
  Expired: 'Expired',
  Gone: 'Expired',
  Forbidden: 'Forbidden',
  // The token is being rotated, or the API server cannot verify it yet. No decision about permissions was made.
  Unauthorized: 'Unavailable',
  BadRequest: 'BadRequest',
  MethodNotAllowed: 'BadRequest',
  NotAcceptable: 'BadRequest',
  UnsupportedMediaType: 'BadRequest',
  TooManyRequests: 'TooManyRequests',
  ServerTimeout: 'Unavailable',
  Timeout: 'Unavailable',
  InternalError: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
}

const byCode: Record<number, ClusterErrorReason> = {
  401: 'Unavailable',
  403: 'Forbidden',
  408: 'Unavailable',
  409: 'Conflict',
  410: 'Expired',
  413: 'Invalid',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/**
 * Other forms of kube-apiserver's error for an object that violates its schema. For create and update, an unknown field
 * or a wrong type is a BadRequest; for server-side apply, it is a 500 without a reason.
 */
const schemaBreaches = [/ cannot be handled as an? /, /^failed to create typed patch object /]

/** Returns the error for a response with a status of 400 or above. */
export function refusalOf(code: number, body: string, retryAfter?: string): ClusterError {
  const parsed = parseStatus(body)
  if (parsed === undefined) return plainRefusal(code, body, retryAfter)
  // A path that is not served also results in 404. If it counted as an absent object, the caller would create the
  // object a second time.
  if (parsed.reason === 'NotFound' && parsed.details.kind === undefined)
    return new KindNotServedError(`the API server does not serve this kind: ${parsed.message}`)
  return withRetry(reasonOf(parsed, code), parsed.message === '' ? `HTTP ${code}` : parsed.message, retryAfter)
}

/** Returns the error of an ERROR event of a watch. */
export function refusalOfEvent(object: unknown): ClusterError {
  const parsed = status.safeParse(object)
  if (!parsed.success) return new ClusterError('Unavailable', 'the watch ended with an error that is not a Status')
  return new ClusterError(reasonOf(parsed.data, parsed.data.code), parsed.data.message)
}

function reasonOf({ message, reason, details }: Status, code: number): ClusterErrorReason {
  if (schemaBreaches.some(breach => breach.test(message))) return 'Invalid'
  if (reason === 'Conflict' && details.causes?.some(cause => cause.reason === 'FieldManagerConflict'))
    return 'FieldConflict'
  return byReason[reason] ?? byCode[code] ?? (code >= 500 || code === 0 ? 'Unavailable' : 'BadRequest')
}

function plainRefusal(code: number, body: string, retryAfter: string | undefined): ClusterError {
  const detail = body
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, 200)
  const message = `HTTP ${code}${detail === '' ? '' : `: ${detail}`}`
  if (code === 404) return new KindNotServedError(`the API server does not serve this kind: ${message}`)
  return withRetry(byCode[code] ?? (code >= 500 ? 'Unavailable' : 'BadRequest'), message, retryAfter)
}

function withRetry(reason: ClusterErrorReason, message: string, retryAfter: string | undefined): ClusterError {
  const seconds = retryAfter !== undefined && /^\d{1,5}$/.test(retryAfter) ? `; retry after ${retryAfter} s` : ''
  return new ClusterError(reason, `${message}${seconds}`)
}

function parseStatus(body: string): Status | undefined {
  try {
    const parsed = status.safeParse(JSON.parse(body))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}
