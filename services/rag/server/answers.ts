/** JSON responses. All of them have a link to the description of the API (RFC 8631). */
import type { HeaderList } from '../../http/headers.ts'
import { bodyRefusal, json } from '../../http/json-answers.ts'
import type { HttpResponse } from '../../http/message.ts'
import { ProviderError } from '../../providers/errors.ts'
import { RagError } from '../errors.ts'

const link = ['Link', '</v1/openapi.json>; rel="service-desc"'] as const

export const jsonAnswer = (status: number, value: unknown, headers: HeaderList = []): HttpResponse =>
  json(status, value, [link, ...headers])

export const errorAnswer = (
  { code, message, status }: Pick<RagError, 'code' | 'message' | 'status'>,
  headers: HeaderList = [],
): HttpResponse => jsonAnswer(status, { error: { code, message } }, headers)

/** The error as the client receives it. An unexpected error has no details. */
export function ragErrorOf(error: unknown): RagError {
  if (error instanceof RagError) return error
  if (error instanceof ProviderError) return new RagError('EXECUTION_ERROR', error.summary, error)
  return new RagError('INTERNAL_ERROR', 'unexpected server error', error)
}

/** The response to a request that failed, or that was refused before it was parsed. */
export function renderError(error: unknown): HttpResponse {
  const refusal = bodyRefusal(error)
  if (refusal !== undefined) {
    const { status, error: message, headers } = refusal
    const code = status === 413 ? 'REQUEST_TOO_LARGE' : status === 503 ? 'OVERLOADED' : 'INVALID_REQUEST'
    return errorAnswer({ code, message, status }, headers)
  }
  const known = ragErrorOf(error)
  return errorAnswer(known, known.status === 503 ? [['Retry-After', '1']] : [])
}
