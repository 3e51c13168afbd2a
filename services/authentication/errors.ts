/**
 * Reasons why a token is refused, as data. The service writes the response's text. The data contain no part of a token,
 * a key or a claim's value.
 */

/**
 * A setting that makes token verification impossible. The message has the setting's name in AuthenticatorSettings. The
 * rule continues a sentence that starts with this name.
 */
export class SettingError extends Error {
  readonly rule: string

  constructor(setting: 'jwtSecret' | 'roleClaimKey', rule: string) {
    super(`${setting}: ${rule}`)
    this.rule = rule
  }
}

/** Why a token could not be decoded. */
export type Undecodable =
  | { kind: 'empty' }
  | { kind: 'parts'; count: number }
  | { kind: 'malformed' }
  | { kind: 'unsecured' }
  | { kind: 'no suitable key' }
  | { kind: 'not verified' }

/** A claim that is a time, in seconds since 1970 (RFC 7519, section 4.1). */
export type TimeClaim = 'exp' | 'nbf' | 'iat'

/** Why the claims of a correctly signed token are refused. */
export type ClaimsFault =
  | { kind: 'not an object' }
  | { kind: 'not a number'; claim: TimeClaim }
  | { kind: 'expired' }
  | { kind: 'not yet valid' }
  | { kind: 'issued in the future' }
  | { kind: 'audience of a wrong type' }
  | { kind: 'other audience' }
  | { kind: 'no role name' }

export type Refusal =
  /** The client sent a token, but no secret is configured to verify it. The fault is the server's. */
  { kind: 'no secret' } | { kind: 'undecodable'; reason: Undecodable } | { kind: 'claims'; fault: ClaimsFault }

/** A token that does not authenticate its sender. */
export class AuthenticationError extends Error {
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(`token refused: ${describe(refusal)}`)
    this.name = 'AuthenticationError'
    this.refusal = refusal
  }
}

function describe(refusal: Refusal): string {
  switch (refusal.kind) {
    case 'no secret':
      return 'no secret is configured to verify the token'
    case 'undecodable':
      return refusal.reason.kind
    case 'claims':
      return refusal.fault.kind
  }
}

export const undecodable = (reason: Undecodable) => new AuthenticationError({ kind: 'undecodable', reason })
export const claimsAtFault = (fault: ClaimsFault) => new AuthenticationError({ kind: 'claims', fault })
