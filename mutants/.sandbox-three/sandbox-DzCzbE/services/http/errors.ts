/** What the server refuses by itself. How a client is told is the service's to say; that the connection ends where its bytes cannot be made sense of any more is seen to here. */
// @ts-nocheck


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
