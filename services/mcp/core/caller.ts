/** The caller of a request. Tools and endpoints receive the caller instead of a token. */
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'

export type Caller = {
  /** `anyone`: a caller that is not authenticated. `client`: an OAuth client, which usually acts for a user. */
  readonly kind: 'anyone' | 'token' | 'user' | 'client'
  /** The unique name of the caller, such as `user:alice`. The server stores the caller's data under this name. */
  readonly principal: string
  /** The caller's account, or the account for which the caller acts. */
  readonly username: string | undefined
  /** The database connections that the caller may use; undefined: all. */
  readonly databases: readonly string[] | undefined
  readonly scopes: ReadonlySet<Scope>
  /** The key of the data that the server stores for a token or a login, such as the selected connection. */
  readonly session: string
}

/** The caller over stdio without a bridge, or over HTTP if authentication is off. This caller has all rights. */
export const anyone: Caller = {
  kind: 'anyone',
  principal: 'anyone',
  username: undefined,
  databases: undefined,
  scopes: new Set(scopes),
  session: 'anyone',
}
