/**
 * Callers of the bridge: anonymous callers, and callers with a configured token or with an access token of the bridge's
 * authorization server.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { wellFormedBearerToken } from '../authentication/bearer.ts'
import { type Scope, scopes } from '../mcp-protocol/scopes.ts'
import { BridgeRefusal } from './errors.ts'

export type BridgeCaller = {
  readonly kind: 'anyone' | 'token' | 'user' | 'client'
  /** The unique name of the caller. */
  readonly principal: string
  readonly username: string | undefined
  readonly scopes: ReadonlySet<Scope>
  /** The key of state that lives as long as the caller's token. */
  readonly session: string
}

/** A caller with its request's address, which distinguishes callers without a token. */
export type BridgeCallerAt = BridgeCaller & { readonly address: string }

/** `authorization`: the header as the client sent it. @throws BridgeRefusal with 401 */
export type Authenticate = (authorization: string | undefined) => Promise<BridgeCaller>

export type ConfiguredToken = { readonly name: string; readonly sha256: Buffer; readonly scopes: readonly Scope[] }

const anyone: BridgeCaller = {
  kind: 'anyone',
  principal: 'anyone',
  username: undefined,
  scopes: new Set(scopes),
  session: 'anyone',
}

export const allowAnyone: Authenticate = () => Promise.resolve(anyone)

/** @throws BridgeRefusal with 401 if the header is missing, or is not `Bearer <token>` */
export function requiredToken(authorization: string | undefined): string {
  if (authorization === undefined) throw new BridgeRefusal({ status: 401, isMissing: true }, 'authentication required')
  const token = wellFormedBearerToken(authorization)
  if (token === undefined) throw invalidToken()
  return token
}

/** The same error for every problem of a token. */
export const invalidToken = (): BridgeRefusal =>
  new BridgeRefusal({ status: 401, isMissing: false }, 'the token is invalid or has expired')

/**
 * Compares all configured tokens, so that the time reveals nothing. `others` checks a token that differs from all of
 * them.
 */
export function byConfiguredTokens(
  tokens: readonly ConfiguredToken[],
  others: Authenticate = () => Promise.reject(invalidToken()),
): Authenticate {
  return async authorization => {
    const hash = createHash('sha256').update(requiredToken(authorization)).digest()
    const [found] = tokens.filter(token => timingSafeEqual(token.sha256, hash))
    if (found === undefined) return await others(authorization)
    const principal = `token:${found.name}`
    return { kind: 'token', principal, username: undefined, scopes: new Set(found.scopes), session: principal }
  }
}
