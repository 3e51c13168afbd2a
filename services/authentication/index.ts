/**
 * Authenticates a request: verifies the bearer token of an `Authorization` header, and finds the token's role. Every
 * header gives an Authentication or an AuthenticationError. No role or claim comes from a token that no configured key
 * signed. A new secret requires a new authenticator, whose cache is empty.
 */
import { hash } from 'node:crypto'
import { compactVerify } from 'jose'
import { followRolePath, type RolePath } from '../../values/role-path.ts'
import { SieveCache } from '../cache/sieve.ts'
import { bearerToken } from './bearer.ts'
import { type Claims, checkClaims, parseClaims, roleName } from './claims.ts'
import { AuthenticationError, undecodable } from './errors.ts'
import { parseSecret, suitableKeys, type VerificationKey } from './keys.ts'
import { parseRolePath } from './role-path.ts'
import { parseToken, type Token } from './token.ts'

export type AuthenticatorSettings = {
  /** A passphrase, a JSON Web Key or a key set. Bytes if the configuration has it in Base64. */
  jwtSecret?: string | Uint8Array
  audience?: string
  /** A path expression such as `.role`. */
  roleClaimKey: string
  /** How many verified tokens are cached; 0: none. */
  cacheMaxEntries: number
  /** Called for cache hits, misses and evictions. */
  onCache?: (event: CacheEvent) => void
}

export type CacheEvent = 'lookup' | 'hit' | 'eviction'

export type Authentication = {
  /** The role in the token. Undefined: the caller uses the anonymous role. */
  readonly role: string | undefined
  /** Frozen. Numbers that a double cannot represent are raw JSON, which JSON.stringify writes unchanged. */
  readonly claims: Claims
  /** Whether a token that is valid now names the role. */
  readonly authenticated: boolean
}

export type Authenticator = {
  /**
   * Checks a header. Returns synchronously if there is no token, or if the token's signature is cached.
   * @throws AuthenticationError, synchronously or as a rejection
   */
  authenticate(authorization: string | undefined): Authentication | Promise<Authentication>
}

const anonymous: Authentication = Object.freeze({ role: undefined, claims: Object.freeze({}), authenticated: false })

/**
 * Creates an authenticator. `now`: milliseconds since 1970.
 * @throws SettingError for `jwtSecret` or `roleClaimKey`
 */
export function createAuthenticator(settings: AuthenticatorSettings, now: () => number): Authenticator {
  const keys = settings.jwtSecret === undefined ? undefined : parseSecret(settings.jwtSecret)
  const rolePath = parseRolePath(settings.roleClaimKey)
  const verified = new SieveCache<Claims>(settings.cacheMaxEntries)
  const { onCache = () => {} } = settings
  const check = (claims: Claims) => authenticationOf(claims, settings.audience, rolePath, now())

  const verifyAndCheck = async (token: Token, fingerprint: string, suitable: readonly VerificationKey[]) => {
    const claims = parseClaims(await verify(token, suitable))
    // The signature stays valid, but time can make the claims invalid or valid.
    if (verified.set(fingerprint, claims)) onCache('eviction')
    return check(claims)
  }

  return {
    authenticate(authorization) {
      const text = bearerToken(authorization)
      if (text === undefined) return anonymous
      if (keys === undefined) throw new AuthenticationError({ kind: 'no secret' })
      // The keys are hashes, so that a memory dump of the cache contains no usable tokens.
      const fingerprint = hash('sha256', text, 'base64')
      const known = verified.get(fingerprint)
      onCache('lookup')
      if (known !== undefined) {
        onCache('hit')
        return check(known)
      }
      const token = parseToken(text)
      const suitable = suitableKeys(keys, token)
      if (suitable.length === 0) throw undecodable({ kind: 'no suitable key' })
      return verifyAndCheck(token, fingerprint, suitable)
    },
  }
}

/** The payload, after a key that signed it has been found. Tries the keys in order. */
async function verify(token: Token, keys: readonly VerificationKey[]): Promise<Uint8Array> {
  for (const key of keys) {
    try {
      return (await compactVerify(token.text, key.material, { algorithms: [token.algorithm] })).payload
    } catch {
      // Whatever failed, this key did not verify the token. The next key may verify it.
    }
  }
  throw undecodable({ kind: 'not verified' })
}

function authenticationOf(
  claims: Claims,
  audience: string | undefined,
  rolePath: RolePath,
  at: number,
): Authentication {
  checkClaims(claims, audience, at)
  const role = roleName(followRolePath(rolePath, claims))
  return { role, claims, authenticated: role !== undefined }
}
