/**
 * From an access token to who is asking: signature, issuer, audience, times, tenant and subject. What was verified once
 * is kept by the hash of the token, boundedly and briefly, so that a busy client costs one signature check a few minutes.
 */
// @ts-nocheck

import { hash } from 'node:crypto'
import { errors, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import { memberId, tenantId } from '../../crds/index.ts'
import type { AuthenticationConfiguration } from '../configuration.ts'
import { hasDoubtfulKey } from '../doubtful-keys.ts'
import { type ApiError, unauthorized, unavailable } from '../errors.ts'
import { verificationKey } from './keys.ts'

/** Who is asking: a member (`subject`) of an account (`tenantId`). */
export type Principal = {
  tenantId: string
  subject: string
  /** Until when the token need not be verified again, in ms since the epoch. */
  goodUntil: number
}

/** @throws ApiError 401 for a token that is not good, 503 where the issuer's keys cannot be had */
export type VerifyToken = (token: string) => Principal | Promise<Principal>

const highestTokenLength = 8192
/** Leeway for clocks that differ. */
const skewSeconds = 30
/** A key that its issuer withdrew stops to count after this at the latest. */
const longestCacheMs = 300_000

/** Why a token is refused, in words that help its holder and tell nobody else anything. */
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
  if (keysOutOfReach) return unavailable("the token issuer's keys cannot be fetched at present: try again", error)
  return unauthorized('the token is not valid', 'invalid_token')
}

/** @throws KeyError where the configured key is unusable */
export function createVerifier(configuration: AuthenticationConfiguration, now: () => number): VerifyToken {
  const { issuer, audience, tenantClaim, cachedTokens } = configuration
  const { key, algorithms } = verificationKey(configuration)
  /** By hash, so that no token lies about in memory longer than the connection it came by. */
  const verified = cachedTokens === 0 ? undefined : new LRUCache<string, Principal>({ max: cachedTokens })

  async function verify(token: string, tokenHash: string): Promise<Principal> {
    let payload: Record<string, unknown>
    if (token.split('.').some(part => hasDoubtfulKey(Buffer.from(part, 'base64url').toString('utf8'))))
      throw unauthorized('the token is not valid', 'invalid_token')
    try {
      const options = { algorithms, issuer, audience, clockTolerance: skewSeconds, currentDate: new Date(now()) }
      payload = (await jwtVerify(token, key, { ...options, requiredClaims: ['exp', 'sub', tenantClaim] })).payload
    } catch (error) {
      throw refusal(error, configuration.jwksUrl !== undefined)
    }
    const tenant = tenantId.safeParse(payload[tenantClaim])
    const member = memberId.safeParse(payload.sub)
    if (!tenant.success) throw unauthorized(`the token's ${tenantClaim} claim names no tenant`, 'invalid_token')
    if (!member.success) throw unauthorized("the token's sub claim names nobody", 'invalid_token')
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
