/**
 * The error of a refused request. catalogue.ts creates the errors with the service's own text, and database.ts creates
 * those of Postgres.
 */

/** A JSON value. The `details` of an ambiguous embedding are a list, not a text. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** Retry-After for errors that have none. */
export const retryAfter: [name: string, value: string] = ['Retry-After', '1']

type RestErrorParts = {
  /** The HTTP status, 100 to 999. */
  status: number
  /** The reason phrase, if SQL raised an error that has one. */
  statusText?: string
  /** `RSTgxx`, or a SQLSTATE. */
  code: string
  message: string
  details?: Json
  hint?: string | null
  /** In a batch: the index of the refused request, from 0. */
  request?: number | undefined
  headers?: [name: string, value: string][]
}

/** Any error that refuses a request. */
export class RestError extends Error {
  readonly status: number
  readonly statusText: string | undefined
  readonly code: string
  readonly details: Json
  readonly hint: string | null
  readonly request: number | undefined
  readonly headers: [name: string, value: string][]

  constructor(parts: RestErrorParts, cause?: unknown) {
    super(parts.message, { cause })
    this.name = 'RestError'
    this.status = parts.status
    this.statusText = parts.statusText
    this.code = parts.code
    this.details = parts.details ?? null
    this.hint = parts.hint ?? null
    this.request = parts.request
    this.headers = parts.headers ?? []
  }
}
