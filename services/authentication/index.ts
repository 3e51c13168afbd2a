/**
 * Who a request is from: verifies the bearer token of an `Authorization` header and finds the role it names.
 * It promises that whatever a header holds, it gives an Authentication or an AuthenticationError, and that no role or claim comes out of a token that a configured key has
 * not signed. A new secret means a new authenticator, and with it an empty cache.
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
  /** A passphrase, a JSON Web Key or a key set; bytes where it was written in base64. */
  jwtSecret?: string | Uint8Array
  audience?: string
  /** A path expression, as `.role`. */
  roleClaimKey: string
  /** How many verified tokens are remembered; 0 remembers none. */
  cacheMaxEntries: number
  /** Told what becomes of tokens in the cache. */
  onCache?: (event: CacheEvent) => void
}

export type CacheEvent = 'lookup' | 'hit' | 'eviction'

export type Authentication = {
  /** The name in the token; undefined where the anonymous role is to be used. */
  readonly role: string | undefined
  /** Frozen. Numbers beyond a double's reach are raw JSON: JSON.stringify gives them back exactly. */
  readonly claims: Claims
  /** Whether a token that is valid now names the role. */
  readonly authenticated: boolean
}

export type Authenticator = {
  /**
   * Judges a header. It answers without a promise where there is no token, or one whose signature is remembered.
   * @throws AuthenticationError, at once or by the promise
   */
  authenticate(authorization: string | undefined): Authentication | Promise<Authentication>
}

const anonymous: Authentication = Object.freeze({ role: undefined, claims: Object.freeze({}), authenticated: false })

/**
 * Makes an authenticator; `now` is in milliseconds since 1970.
 * @throws SettingError of `jwtSecret` or `roleClaimKey`
 */
export function createAuthenticator(settings: AuthenticatorSettings, now: () => number): Authenticator {
  const keys = settings.jwtSecret === undefined ? undefined : parseSecret(settings.jwtSecret)
  const rolePath = parseRolePath(settings.roleClaimKey)
  const verified = new SieveCache<Claims>(settings.cacheMaxEntries)
  const { onCache = () => {} } = settings
  const judge = (claims: Claims) => judgeClaims(claims, settings.audience, rolePath, now())

  const verifyAndJudge = async (token: Token, fingerprint: string, suitable: readonly VerificationKey[]) => {
    const claims = parseClaims(await verify(token, suitable))
    // Whether the claims let it in changes with time; that it was signed does not.
    if (verified.set(fingerprint, claims)) onCache('eviction')
    return judge(claims)
  }

  return {
    authenticate(authorization) {
      const text = bearerToken(authorization)
      if (text === undefined) return anonymous
      if (keys === undefined) throw new AuthenticationError({ kind: 'no secret' })
      // The cache must not be a store of tokens that whoever reads the memory can use.
      const fingerprint = hash('sha256', text, 'base64')
      const known = verified.get(fingerprint)
      onCache('lookup')
      if (known !== undefined) {
        onCache('hit')
        return judge(known)
      }
      const token = parseToken(text)
      const suitable = suitableKeys(keys, token)
      if (suitable.length === 0) throw undecodable({ kind: 'no suitable key' })
      return verifyAndJudge(token, fingerprint, suitable)
    },
  }
}

/** The payload, once a key has been found that signed it; keys are tried in turn. */
async function verify(token: Token, keys: readonly VerificationKey[]): Promise<Uint8Array> {
  for (const key of keys) {
    try {
      return (await compactVerify(token.text, key.material, { algorithms: [token.algorithm] })).payload
    } catch {
      // Whatever is wrong, this key has not shown that it signed the token; the next one may.
    }
  }
  throw undecodable({ kind: 'not verified' })
}

function judgeClaims(claims: Claims, audience: string | undefined, rolePath: RolePath, at: number): Authentication {
  checkClaims(claims, audience, at)
  const role = roleName(followRolePath(rolePath, claims))
  return { role, claims, authenticated: role !== undefined }
}
