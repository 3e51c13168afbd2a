/**
 * Errors of the server itself. The service formats the response; the server closes the connection if its bytes cannot
 * be parsed any further.
 */

type HttpFault =
  | { readonly kind: 'body too large'; readonly maximumBytes: number }
  /** The bodies and answers of other requests take all that may be held. */
  | { readonly kind: 'memory exhausted' }

export class HttpError extends Error {
  readonly fault: HttpFault

  constructor(fault: HttpFault) {
    super(fault.kind)
    this.name = 'HttpError'
    this.fault = fault
  }
}
