/** JSON responses, and errors as `{"error": ...}`, for services without their own error format. */
import { HttpError } from './errors.ts'
import type { HeaderList } from './headers.ts'
import { JsonBodyError } from './json-body.ts'
import type { HttpResponse } from './message.ts'

/** `value`: undefined or a JSON value. */
export const json = (status: number, value: unknown, headers: HeaderList = []): HttpResponse => ({
  status,
  headers: [['Content-Type', 'application/json'], ...headers],
  body: JSON.stringify(value),
})

export const jsonError = (status: number, error: string, headers: HeaderList = []): HttpResponse =>
  json(status, { error }, headers)

type Refusal = { readonly status: number; readonly error: string; readonly headers: HeaderList }

const jsonBodyRefusals: Record<JsonBodyError['fault'], Refusal> = {
  'another type': { status: 415, error: 'the body must have the content type application/json', headers: [] },
  'not UTF-8': { status: 400, error: 'the body is not valid UTF-8', headers: [] },
  'not JSON': { status: 400, error: 'the body is not valid JSON', headers: [] },
}

/** Returns undefined unless the error is a JsonBodyError or an HttpError. */
export function bodyRefusal(error: unknown): Refusal | undefined {
  if (error instanceof JsonBodyError) return jsonBodyRefusals[error.fault]
  if (!(error instanceof HttpError)) return undefined
  const { fault } = error
  return fault.kind === 'body too large'
    ? { status: 413, error: `the body must have at most ${fault.maximumBytes} bytes`, headers: [] }
    : {
        status: 503,
        error: "the server's memory limit for requests and responses is reached; try again",
        headers: [['Retry-After', '1']],
      }
}

export function wrongMethod(allowed: readonly string[]): HttpResponse {
  const list = allowed.join(', ')
  return jsonError(405, `allowed methods: ${list}`, [['Allow', list]])
}
