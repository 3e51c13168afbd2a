/** An error response of the helper API: a status, a sentence for the client, and headers that the status requires. */
import type { HeaderList } from '../../http/headers.ts'

export class ApiError extends Error {
  readonly status: 400 | 401 | 403 | 404 | 405 | 409 | 413 | 429 | 500 | 502 | 503 | 504
  readonly headers: HeaderList

  constructor(status: ApiError['status'], message: string, headers: HeaderList = []) {
    super(message)
    this.name = 'ApiError'
    this.status = status
    this.headers = headers
  }
}
