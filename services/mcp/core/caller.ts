/** The authenticated caller. Tools and endpoints receive the caller instead of a token. */
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'

export type Caller = {
  /** `anyone`: a caller over stdio, or without authentication. `client`: an OAuth client, usually for a user. */
  readonly kind: 'anyone' | 'token' | 'user' | 'client'
  /** The unique name of the caller, such as `user:alice`. The caller's data is stored under this key. */
  readonly principal: string
  /** The caller's account, or the account for which the caller acts. */
  readonly username: string | undefined
  /** Database connections that the caller may use; undefined: all. */
  readonly databases: readonly string[] | undefined
  readonly scopes: ReadonlySet<Scope>
  /** The key under which the token's data is stored, such as the selected connection. */
  readonly session: string
}

/** Every caller over stdio, or without authentication. */
export const anyone: Caller = {
  kind: 'anyone',
  principal: 'anyone',
  username: undefined,
  databases: undefined,
  scopes: new Set(scopes),
  session: 'anyone',
}
