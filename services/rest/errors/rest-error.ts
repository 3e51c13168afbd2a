/** What a request is refused with. catalogue.ts makes those that the service words itself, database.ts those of Postgres. */

/** A value that JSON can say; `details` of an ambiguous embedding is a list, not a text. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** Of what does not say itself when to ask again. */
export const retryAfter: [name: string, value: string] = ['Retry-After', '1']

type RestErrorParts = {
  /** HTTP status, 100 to 999. */
  status: number
  /** The reason phrase, where an error raised in the database gives its own. */
  statusText?: string
  /** `RSTgxx`, or a SQLSTATE. */
  code: string
  message: string
  details?: Json
  hint?: string | null
  /** Of a batch, the place of the request that is refused, from 0. */
  request?: number | undefined
  headers?: [name: string, value: string][]
}

/** Whatever a request is refused with. */
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
