/** Errors of a request, with their documented codes. */

export type RagErrorCode =
  | 'INVALID_REQUEST'
  | 'PIPELINE_NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'NOT_FOUND'
  | 'REQUEST_TOO_LARGE'
  | 'REQUEST_TIMEOUT'
  | 'EXECUTION_ERROR'
  | 'STREAMING_ERROR'
  | 'INTERNAL_ERROR'
  | 'OVERLOADED'
  | 'DATABASE_UNAVAILABLE'
  | 'FORBIDDEN'

const statuses: Readonly<Record<RagErrorCode, number>> = {
  INVALID_REQUEST: 400,
  PIPELINE_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  NOT_FOUND: 404,
  REQUEST_TOO_LARGE: 413,
  REQUEST_TIMEOUT: 504,
  EXECUTION_ERROR: 500,
  STREAMING_ERROR: 500,
  INTERNAL_ERROR: 500,
  OVERLOADED: 503,
  DATABASE_UNAVAILABLE: 503,
  FORBIDDEN: 403,
}

/**
 * The client receives the message. It names fields, tables and providers, but never contains keys or values of rows.
 */
export class RagError extends Error {
  readonly code: RagErrorCode

  constructor(code: RagErrorCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'RagError'
    this.code = code
  }

  get status(): number {
    return statuses[this.code]
  }
}

/** The client sends its body too slowly. HTTP has a status for this error, but the API has no code. */
export class SlowBodyError extends RagError {
  constructor(message: string) {
    super('INVALID_REQUEST', message)
    this.name = 'SlowBodyError'
  }

  override get status(): number {
    return 408
  }
}
