/** The result of authenticating a request. It does not depend on the kind or storage of credentials. */
import type { Caller } from '../core/caller.ts'

export type Authenticated =
  | { readonly kind: 'caller'; readonly caller: Caller }
  /** The token is missing, malformed, unknown or expired. The client does not learn which. */
  | { readonly kind: 'refused'; readonly isMissing: boolean }
  /** There were too many failures from this address. */
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }

export type Authentication = {
  /** `authorization`: the header as sent. `address`: the client's address behind trusted proxies. */
  authenticate(authorization: string | undefined, address: string): Promise<Authenticated>
}
