/**
 * What a client is told when its token is refused: RST300 to RST303 (PostgREST 14's documentation, references/errors "Group 3 - JWT").
 * No wording here holds a part of a token, a key or a claim's value.
 */
import { RestError } from '../rest/errors/rest-error.ts'

/** A setting that tokens cannot be judged by. The message names the setting; the rule continues the sentence that its name begins. */
export class SettingError extends Error {
  readonly rule: string

  constructor(setting: string, rule: string) {
    super(`${setting}: ${rule}`)
    this.rule = rule
  }
}

/** Why a token could not be decoded; each is a 401 with RST301. */
export type Undecodable =
  | { kind: 'empty' }
  | { kind: 'parts'; count: number }
  | { kind: 'malformed' }
  | { kind: 'unsecured' }
  | { kind: 'no suitable key' }
  | { kind: 'not verified' }

/** A claim that holds a time, in seconds since 1970 (RFC 7519 section 4.1). */
export type TimeClaim = 'exp' | 'nbf' | 'iat'

/** Why claims of a token that was signed well do not let it in; each is a 401 with RST303. */
export type ClaimsFault =
  | { kind: 'not an object' }
  | { kind: 'not a number'; claim: TimeClaim }
  | { kind: 'expired' }
  | { kind: 'not yet valid' }
  | { kind: 'issued in the future' }
  | { kind: 'audience of a wrong type' }
  | { kind: 'other audience' }
  | { kind: 'no role name' }

/** RST300: a token came, but there is nothing to check it with. The fault is the server's: 500. */
export function secretMissing(): RestError {
  return new RestError({ status: 500, code: 'RST300', message: 'Server lacks JWT secret' })
}

/** RST302: nobody is named, and there is no anonymous role. */
export function anonymousRefused(): RestError {
  return new RestError({
    status: 401,
    code: 'RST302',
    message: 'Anonymous access is disabled',
    headers: [['WWW-Authenticate', 'Bearer']],
  })
}

/** RST301. */
export function tokenRefused(reason: Undecodable): RestError {
  const { message, details } = describeUndecodable(reason)
  return invalidToken('RST301', message, details)
}

/** RST303. */
export function claimsRefused(fault: ClaimsFault): RestError {
  return invalidToken('RST303', describeFault(fault), null)
}

/** The challenge is RFC 6750's, section 3; the messages hold neither a quote nor a backslash, so they stand in it as they are. */
function invalidToken(code: string, message: string, details: string | null): RestError {
  const challenge = `Bearer error="invalid_token", error_description="${message}"`
  return new RestError({ status: 401, code, message, details, headers: [['WWW-Authenticate', challenge]] })
}

function describeUndecodable(reason: Undecodable): { message: string; details: string | null } {
  switch (reason.kind) {
    case 'empty':
      return { message: 'Empty JWT is sent in Authorization header', details: null }
    case 'parts':
      return { message: `Expected 3 parts in JWT; got ${reason.count}`, details: null }
    case 'malformed':
      return { message: 'JWT cryptographic operation failed', details: null }
    case 'unsecured':
      return {
        message: 'Wrong or unsupported encoding algorithm',
        details: "JWT is unsecured but expected 'alg' was not 'none'",
      }
    case 'no suitable key':
      return {
        message: 'No suitable key or wrong key type',
        details: 'No suitable key was found to decode the JWT',
      }
    case 'not verified':
      return {
        message: 'No suitable key or wrong key type',
        details: 'None of the keys was able to decode the JWT',
      }
  }
}

function describeFault(fault: ClaimsFault): string {
  switch (fault.kind) {
    case 'not an object':
      return 'Parsing claims failed'
    case 'not a number':
      return `The JWT '${fault.claim}' claim must be a number`
    case 'expired':
      return 'JWT expired'
    case 'not yet valid':
      return 'JWT not yet valid'
    case 'issued in the future':
      return 'JWT issued at future'
    case 'audience of a wrong type':
      return "The JWT 'aud' claim must be a string or an array of strings"
    case 'other audience':
      return 'JWT not in audience'
    case 'no role name':
      return 'The role in the JWT is not the name of a role'
  }
}
