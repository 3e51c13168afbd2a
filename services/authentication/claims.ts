/**
 * Claims of a verified token. They are parsed exactly. Their times, with 30 seconds tolerance, and their audience are
 * checked (RFC 7519, section 4.1). Verified claims are cached for many requests, so they are deeply frozen.
 */
import { isRecord } from '../../values/record.ts'
import { type ClaimsFault, claimsAtFault, type TimeClaim } from './errors.ts'
import { exactJson, parseExactly } from './exact-json.ts'

export type Claims = Readonly<Record<string, unknown>>

/** The allowed clock difference between the issuer and this server, in seconds. */
const clockSkew = 30
/** How deep claims may nest. Postgres also parses them as JSON, and its stack is limited. */
const deepest = 64

const utf8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads a token's payload. A number that a double cannot represent, such as a 64-bit identifier, stays raw JSON, which
 * JSON.stringify writes unchanged.
 * @throws AuthenticationError if the payload is not a JSON object in UTF-8, or nests deeper than 64
 */
export function parseClaims(payload: Uint8Array): Claims {
  const claims = parsePayload(payload)
  if (!isObject(claims)) throw claimsAtFault({ kind: 'not an object' })
  freeze(claims, deepest)
  return claims
}

function parsePayload(payload: Uint8Array): unknown {
  try {
    return parseExactly(utf8.decode(payload))
  } catch {
    // The payload is not UTF-8, not JSON, or so deep that the stack overflows.
    return undefined
  }
}

function freeze(value: unknown, levels: number): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  if (levels === 0) throw claimsAtFault({ kind: 'not an object' })
  for (const member of Object.values(value)) freeze(member, levels - 1)
  Object.freeze(value)
}

/**
 * Checks claims at a time, in milliseconds since 1970.
 * @throws AuthenticationError for the first of exp, nbf, iat and aud that is invalid
 */
export function checkClaims(claims: Claims, audience: string | undefined, milliseconds: number): void {
  const fault = timeFault(claims, Math.floor(milliseconds / 1000)) ?? audienceFault(claims, audience)
  if (fault !== undefined) throw claimsAtFault(fault)
}

function timeFault(claims: Claims, now: number): ClaimsFault | undefined {
  return (
    faultOfTime(claims, 'exp', time => time < now - clockSkew, { kind: 'expired' }) ??
    faultOfTime(claims, 'nbf', time => time > now + clockSkew, { kind: 'not yet valid' }) ??
    faultOfTime(claims, 'iat', time => time > now + clockSkew, { kind: 'issued in the future' })
  )
}

function faultOfTime(
  claims: Claims,
  claim: TimeClaim,
  isWrong: (time: number) => boolean,
  fault: ClaimsFault,
): ClaimsFault | undefined {
  const value = ownClaim(claims, claim)
  if (value === undefined || value === null) return undefined
  const time = numberOf(value)
  if (time === undefined) return { kind: 'not a number', claim }
  return isWrong(time) ? fault : undefined
}

/** Without `jwt-aud`, any audience of any type is accepted. */
function audienceFault(claims: Claims, audience: string | undefined): ClaimsFault | undefined {
  const value = ownClaim(claims, 'aud')
  if (audience === undefined || value === undefined || value === null) return undefined
  const audiences = Array.isArray(value) ? value : [value]
  if (!audiences.every(element => typeof element === 'string')) return { kind: 'audience of a wrong type' }
  return audiences.length === 0 || audiences.includes(audience) ? undefined : { kind: 'other audience' }
}

/**
 * The role name at the path in the claims. Undefined if the path matches nothing. If the value is not text, returns its
 * JSON, as PostgREST does; no real role has such a name, so the database refuses it.
 * @throws AuthenticationError for a text that Postgres does not accept as a role name: "none" would reset the session
 *   to the authenticator
 */
export function roleName(value: unknown): string | undefined {
  if (value === undefined) return undefined
  const name = typeof value === 'string' ? value : JSON.stringify(value)
  if (name === '' || name === 'none' || name.includes('\0')) throw claimsAtFault({ kind: 'no role name' })
  return name
}

function ownClaim(claims: Claims, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : undefined
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  return exactJson.isRawJSON(value) ? Number(value.rawJSON) : undefined
}

function isObject(value: unknown): value is Record<string, unknown> {
  return isRecord(value) && !exactJson.isRawJSON(value)
}
