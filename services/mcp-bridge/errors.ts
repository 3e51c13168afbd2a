/** Errors of the bridge, one class for each kind. Their texts are for the client. */

type RefusalKind =
  | { readonly status: 400 | 403 | 404 | 405 | 406 | 409 | 413 | 415 | 429 | 500 | 502 | 503 }
  /** `isMissing`: the request had no token. The client does not learn why a token is invalid. */
  | { readonly status: 401; readonly isMissing: boolean }

/** The bridge refuses a request, with a status and `{error}`. */
export class BridgeRefusal extends Error {
  readonly refusal: RefusalKind

  constructor(refusal: RefusalKind, message: string) {
    super(message)
    this.name = 'BridgeRefusal'
    this.refusal = refusal
  }
}

export const notRunning = (): BridgeRefusal => new BridgeRefusal({ status: 503 }, 'the tool server is not running')
