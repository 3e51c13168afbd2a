/**
 * Errors of the server itself. The service formats the response. The server closes the connection after the response.
 */

type HttpFault =
  | { readonly kind: 'body too large'; readonly maximumBytes: number }
  /** The bodies of other requests and responses use all of the memory budget. */
  | { readonly kind: 'memory exhausted' }

export class HttpError extends Error {
  readonly fault: HttpFault

  constructor(fault: HttpFault) {
    super(fault.kind)
    this.name = 'HttpError'
    this.fault = fault
  }
}
