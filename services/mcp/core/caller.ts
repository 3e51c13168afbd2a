/** Who asks, as authentication has found. Tools and endpoints know callers by this alone: no token gets this far. */
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'

export type Caller = {
  /** `anyone`: over stdio, or where authentication is off. `client`: an OAuth client, mostly for a user. */
  readonly kind: 'anyone' | 'token' | 'user' | 'client'
  /** Names the caller among all others, as `user:alice`; what is kept for one is kept under this. */
  readonly principal: string
  /** The account that it is, or that it acts for. */
  readonly username: string | undefined
  /** Names of the database connections that it may use; undefined: all. */
  readonly databases: readonly string[] | undefined
  readonly scopes: ReadonlySet<Scope>
  /** What lasts as long as its token does, such as the connection it has selected, is kept under this. */
  readonly session: string
}

/** Over stdio, and where authentication is off. */
export const anyone: Caller = {
  kind: 'anyone',
  principal: 'anyone',
  username: undefined,
  databases: undefined,
  scopes: new Set(scopes),
  session: 'anyone',
}
