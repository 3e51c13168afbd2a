/** The authentication tests share a signer, an authenticator with a manual clock, and refusals as text. */
import type { KeyObject } from 'node:crypto'
import { createHmac } from 'node:crypto'
import { SignJWT } from 'jose'
import { AuthenticationError, type ClaimsFault, type Refusal, type Undecodable } from '../errors.ts'
import { type Authenticator, type AuthenticatorSettings, createAuthenticator } from '../index.ts'

export const passphrase = 'reallyreallyreallyreallyverysafe'

/** Seconds since 1970. Every authenticator that this file creates uses this clock. */
export const clock = { seconds: 1_700_000_000 }

export const make = (settings: Partial<AuthenticatorSettings> = {}) => without({ jwtSecret: passphrase, ...settings })

/** An authenticator without a secret. */
export const without = (settings: Partial<AuthenticatorSettings> = {}) =>
  createAuthenticator({ roleClaimKey: '.role', cacheMaxEntries: 10, ...settings }, () => clock.seconds * 1000)

export const sign = (
  claims: Record<string, unknown>,
  key: KeyObject | Uint8Array = Buffer.from(passphrase),
  header: { alg: string; kid?: string } = { alg: 'HS256' },
) => new SignJWT(claims).setProtectedHeader(header).sign(key)

/** Signs any header and payload with the passphrase, including those that no correct signer would sign. */
export function signAnything(header: unknown, payload: string): string {
  const encode = (text: string) => Buffer.from(text).toString('base64url')
  const signed = `${encode(JSON.stringify(header))}.${encode(payload)}`
  return `${signed}.${createHmac('sha256', passphrase).update(signed).digest('base64url')}`
}

export async function refusal(authenticator: Authenticator, authorization: string): Promise<Refusal> {
  try {
    await authenticator.authenticate(authorization)
  } catch (error) {
    if (!(error instanceof AuthenticationError)) throw error
    return error.refusal
  }
  throw new Error('the authenticator accepted the token')
}

export const undecodable = (kind: Exclude<Undecodable['kind'], 'parts'>): Refusal => ({
  kind: 'undecodable',
  reason: { kind },
})
export const atFault = (kind: Exclude<ClaimsFault['kind'], 'not a number'>): Refusal => ({
  kind: 'claims',
  fault: { kind },
})
