/** What an endpoint of the helper API refuses a request with: a status, and a sentence that the client may read. */

export class ApiError extends Error {
  readonly status: 400 | 401 | 403 | 404 | 409 | 413 | 429 | 500 | 502 | 503 | 504

  constructor(status: ApiError['status'], message: string) {
    super(message)
    this.name = 'ApiError'
    this.status = status
  }
}
