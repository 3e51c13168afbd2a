/** A refused or failed request, as a page shows it. */
export class ApiError extends Error {
  /** The HTTP status; 0 if no answer arrived. */
  readonly status: number
  readonly requestId: string | undefined

  constructor(status: number, message: string, requestId?: string) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.requestId = requestId
  }
}
