/**
 * Why a token is refused, as data: what a client is told of it is the service's to word. Nothing here holds a part of a token, a key or a claim's value.
 */
// @ts-nocheck


/**
 * A setting that tokens cannot be judged by. The message names it as AuthenticatorSettings does; the rule continues the sentence that its name begins, whatever a
 * service calls it.
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

/** A claim that holds a time, in seconds since 1970 (RFC 7519 section 4.1). */
export type TimeClaim = 'exp' | 'nbf' | 'iat'

/** Why claims of a token that was signed well do not let it in. */
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
  /** A token came, but there is nothing to check it with. The fault is the server's. */
  { kind: 'no secret' } | { kind: 'undecodable'; reason: Undecodable } | { kind: 'claims'; fault: ClaimsFault }

/** A token that does not say who asks. */
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
      return 'there is no secret to check it with'
    case 'undecodable':
      return refusal.reason.kind
    case 'claims':
      return refusal.fault.kind
  }
}

export const undecodable = (reason: Undecodable) => new AuthenticationError({ kind: 'undecodable', reason })
export const claimsAtFault = (fault: ClaimsFault) => new AuthenticationError({ kind: 'claims', fault })
