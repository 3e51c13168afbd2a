/** What the bridge refuses or fails with, one class for each kind; the texts are written for whoever asked. */

type RefusalKind =
  | { readonly status: 400 | 403 | 404 | 405 | 406 | 409 | 413 | 415 | 429 | 500 | 502 | 503 }
  /** `isMissing`: no token came; what is wrong with one that came is not told. */
  | { readonly status: 401; readonly isMissing: boolean }

/** A request that is answered with a status and `{error}`. */
export class BridgeRefusal extends Error {
  readonly refusal: RefusalKind

  constructor(refusal: RefusalKind, message: string) {
    super(message)
    this.name = 'BridgeRefusal'
    this.refusal = refusal
  }
}

export const notRunning = (): BridgeRefusal => new BridgeRefusal({ status: 503 }, 'the tool server does not run')
