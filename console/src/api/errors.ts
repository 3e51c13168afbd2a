/** The error of a refused or failed request. Pages show its message. */
export class ApiError extends Error {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number
  readonly requestId: string | undefined

  constructor(status: number, message: string, requestId?: string) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.requestId = requestId
  }
}
