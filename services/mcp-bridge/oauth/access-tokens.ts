/**
 * Access tokens: JWTs with a subject, scopes, a resource and an expiry. A token is valid only while its grant exists.
 */
import { createLocalJWKSet, errors, jwtVerify, SignJWT } from 'jose'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { type Scope, scopes } from '../../mcp-protocol/scopes.ts'
import { type Authenticate, invalidToken, requiredToken } from '../callers.ts'
import { algorithm, type SigningKeys } from './keys.ts'
import { type Store, secretText } from './records.ts'

const tokenType = 'at+jwt'
/** How long another process may still accept a revoked grant. This process refuses the grant immediately. */
const grantCacheMs = 5_000

const claimsSchema = z.object({
  sub: z.string(),
  client_id: z.string(),
  username: z.string().optional(),
  scope: z.string(),
  jti: z.string(),
  /** The grant's id. A token of client_credentials has none. */
  sid: z.string().optional(),
})

type TokenParts = {
  readonly subject: string
  readonly username: string | undefined
  readonly clientId: string
  readonly scopes: readonly Scope[]
  readonly resource: string
  readonly grant: string | undefined
}

type AccessTokenSettings = {
  readonly issuer: string
  readonly resources: readonly string[]
  readonly accessTokenSeconds: number
}

export class AccessTokens {
  readonly #settings: AccessTokenSettings
  readonly #keys: SigningKeys
  readonly #store: Store
  readonly #findKey: ReturnType<typeof createLocalJWKSet>
  readonly #goodGrants = new LRUCache<string, true>({ max: 10_000, ttl: grantCacheMs })

  constructor(settings: AccessTokenSettings, keys: SigningKeys, store: Store) {
    this.#settings = settings
    this.#keys = keys
    this.#store = store
    this.#findKey = createLocalJWKSet(keys.published)
  }

  issue({ subject, username, clientId, scopes: granted, resource, grant }: TokenParts): Promise<string> {
    const { issuer, accessTokenSeconds } = this.#settings
    const now = Math.floor(Date.now() / 1_000)
    const who = {
      client_id: clientId,
      ...(username !== undefined && { username }),
      ...(grant !== undefined && { sid: grant }),
    }
    return new SignJWT({ ...who, scope: granted.join(' ') })
      .setProtectedHeader({ alg: algorithm, typ: tokenType, kid: this.#keys.kid })
      .setIssuer(issuer)
      .setSubject(subject)
      .setAudience(resource)
      .setIssuedAt(now)
      .setNotBefore(now)
      .setExpirationTime(now + accessTokenSeconds)
      .setJti(secretText())
      .sign(this.#keys.signingKey)
  }

  /** Revokes a user's grant, and with it all tokens of the grant. */
  async revoke(grant: string): Promise<void> {
    await this.#store.take('grant', grant)
    this.#goodGrants.delete(grant)
  }

  async #isGood(grant: string): Promise<boolean> {
    if (this.#goodGrants.has(grant)) return true
    if ((await this.#store.get('grant', grant)) === undefined) return false
    this.#goodGrants.set(grant, true)
    return true
  }

  readonly authenticate: Authenticate = async authorization => {
    const token = requiredToken(authorization)
    const { issuer, resources } = this.#settings
    const { payload } = await jwtVerify(token, this.#findKey, {
      issuer,
      audience: [...resources],
      algorithms: [algorithm],
      typ: tokenType,
      requiredClaims: ['exp', 'sub', 'jti'],
    }).catch((error: unknown) => {
      throw error instanceof errors.JOSEError ? invalidToken() : error
    })
    const claims = claimsSchema.parse(payload)
    if (claims.sid !== undefined && !(await this.#isGood(claims.sid))) throw invalidToken()
    const { username, client_id: clientId } = claims
    const granted = claims.scope.split(' ')
    return {
      kind: 'client',
      principal: username === undefined ? `client:${clientId}` : `user:${claims.sub}`,
      username,
      scopes: new Set(scopes.filter(scope => granted.includes(scope))),
      session: `oauth:${claims.sid ?? claims.jti}`,
    }
  }
}
