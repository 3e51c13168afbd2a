/**
 * Verifies an access token and returns the caller. Checks signature, issuer, audience, times, tenant and subject. A
 * verified token is cached by its hash, for a short time and up to a limit. So a busy client causes only one signature
 * check every few minutes.
 */
import { hash } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import { memberId, tenantId } from '../../crds/index.ts'
import { hasBackslashKey } from '../backslash-keys.ts'
import type { AuthenticationConfiguration } from '../configuration.ts'
import { type ApiError, unauthorized, unavailable } from '../errors.ts'
import { verificationKey } from './keys.ts'

/** The caller: a member (`subject`) of an account (`tenantId`). */
export type Principal = {
  tenantId: string
  subject: string
  /** Until when the token need not be verified again, in milliseconds since the epoch. */
  goodUntil: number
}

/** @throws ApiError 401 for an invalid token; 503 if the issuer's keys are unavailable */
export type VerifyToken = (token: string) => Principal | Promise<Principal>

const highestTokenLength = 8192
/** The allowed clock skew. */
const skewSeconds = 30
/** After at most this time, the API refuses tokens of a key that its issuer has withdrawn. */
const longestCacheMs = 300_000

/** Explains why a token is refused. The text helps the token's holder, and reveals nothing to other clients. */
function refusal(error: unknown, remote: boolean): ApiError {
  if (error instanceof errors.JWTExpired) return unauthorized('the token has expired', 'invalid_token')
  if (error instanceof errors.JWTClaimValidationFailed) {
    return unauthorized(`the token's ${error.claim} claim is not accepted here`, 'invalid_token')
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return unauthorized("the token's signature algorithm is not accepted here", 'invalid_token')
  }
  const unreadable = error instanceof errors.JWKSInvalid || error instanceof errors.JWKSTimeout
  const refusedByIssuer = error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC'
  const keysOutOfReach = remote && (unreadable || refusedByIssuer || !(error instanceof errors.JOSEError))
  if (keysOutOfReach) return unavailable("the token issuer's keys cannot be fetched now: retry", error)
  return unauthorized('the token is invalid', 'invalid_token')
}

/** @throws KeyError if the configured key is invalid */
export function createVerifier(configuration: AuthenticationConfiguration, now: () => number): VerifyToken {
  const { issuer, audience, tenantClaim, cachedTokens } = configuration
  const { key, algorithms } = verificationKey(configuration)
  /** The key is a hash, so that no token stays in memory longer than its connection. */
  const verified = cachedTokens === 0 ? undefined : new LRUCache<string, Principal>({ max: cachedTokens })

  async function verify(token: string, tokenHash: string): Promise<Principal> {
    let payload: Record<string, unknown>
    if (token.split('.').some(part => hasBackslashKey(Buffer.from(part, 'base64url').toString('utf8'))))
      throw unauthorized('the token is invalid', 'invalid_token')
    try {
      const options = { algorithms, issuer, audience, clockTolerance: skewSeconds, currentDate: new Date(now()) }
      payload = (await jwtVerify(token, key, { ...options, requiredClaims: ['exp', 'sub', tenantClaim] })).payload
    } catch (error) {
      throw refusal(error, configuration.jwksUrl !== undefined)
    }
    const tenant = tenantId.safeParse(payload[tenantClaim])
    const member = memberId.safeParse(payload.sub)
    if (!tenant.success) throw unauthorized(`the token's ${tenantClaim} claim contains no tenant`, 'invalid_token')
    if (!member.success) throw unauthorized("the token's sub claim is empty", 'invalid_token')
    const { exp } = payload
    const expiry = typeof exp === 'number' ? (exp + skewSeconds) * 1000 : 0
    const principal = {
      tenantId: tenant.data,
      subject: member.data,
      goodUntil: Math.min(expiry, now() + longestCacheMs),
    }
    verified?.set(tokenHash, principal)
    return principal
  }

  return token => {
    if (token.length > highestTokenLength) throw unauthorized('the token is too long', 'invalid_token')
    const tokenHash = hash('sha256', token, 'base64')
    const known = verified?.get(tokenHash)
    if (known !== undefined && known.goodUntil > now()) return known
    verified?.delete(tokenHash)
    return verify(token, tokenHash)
  }
}
