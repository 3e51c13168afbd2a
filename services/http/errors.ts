/**
 * Errors of the server itself. The service formats the response. The server closes the connection after the response.
 */

type HttpFault =
  | { readonly kind: 'body too large'; readonly maximumBytes: number }
  /** The body does not fit in the memory budget, or the budget cancelled the upload for another request. */
  | { readonly kind: 'memory exhausted' }

export class HttpError extends Error {
  readonly fault: HttpFault

  constructor(fault: HttpFault) {
    super(fault.kind)
    this.name = 'HttpError'
    this.fault = fault
  }
}
