/** The authenticated caller. Tools and endpoints get this instead of a token. */
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'

export type Caller = {
  /** `anyone`: over stdio, or without authentication. `client`: an OAuth client, mostly for a user. */
  readonly kind: 'anyone' | 'token' | 'user' | 'client'
  /** Unique name of the caller, such as `user:alice`; the key of the caller's data. */
  readonly principal: string
  /** Its account, or the account that it acts for. */
  readonly username: string | undefined
  /** Database connections that it may use; undefined: all. */
  readonly databases: readonly string[] | undefined
  readonly scopes: ReadonlySet<Scope>
  /** The key of data that lasts as long as the token, such as the selected connection. */
  readonly session: string
}

/** The caller over stdio, and without authentication. */
export const anyone: Caller = {
  kind: 'anyone',
  principal: 'anyone',
  username: undefined,
  databases: undefined,
  scopes: new Set(scopes),
  session: 'anyone',
}
