/** The result of authenticating a request, independent of the kind and storage of credentials. */
import type { Caller } from '../core/caller.ts'

export type Authenticated =
  | { readonly kind: 'caller'; readonly caller: Caller }
  /** Missing, malformed, unknown or expired; the client does not learn which. */
  | { readonly kind: 'refused'; readonly isMissing: boolean }
  /** Too many failures from this address. */
  | { readonly kind: 'limited'; readonly retryAfterSeconds: number }

export type Authentication = {
  /** `authorization`: the header as sent. `address`: the client's, after trusted proxies. */
  authenticate(authorization: string | undefined, address: string): Promise<Authenticated>
}
