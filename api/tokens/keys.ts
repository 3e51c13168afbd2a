/**
 * The keys that verify access tokens. Each kind of key accepts only its own algorithms, so a token can never choose how
 * it is verified: no `none`, and no HMAC keyed with the text of a public key (RFC 8725, section 3.1).
 */
import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { createRemoteJWKSet, type JWTVerifyGetKey } from 'jose'
import { z } from 'zod'
import type { AuthenticationConfiguration } from '../configuration.ts'

type VerificationKey = {
  algorithms: string[]
  key: JWTVerifyGetKey
}

const rsa = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
const ecdsa: Record<string, string> = { prime256v1: 'ES256', secp384r1: 'ES384', secp521r1: 'ES512' }
const edwards = ['EdDSA', 'Ed25519']
const hmac = ['HS256', 'HS384', 'HS512']

/** The problem of the configured key, as a message for the administrator. */
export class KeyError extends Error {
  override readonly name = 'KeyError'
}

const jwk = z.looseObject({ kty: z.string() })

function parsePublicKey(given: string | Record<string, unknown>): KeyObject {
  try {
    if (typeof given === 'string' && given.includes('-----BEGIN')) {
      if (given.includes('PRIVATE KEY')) throw new KeyError('publicKey is a private key: use only its public half')
      return createPublicKey(given)
    }
    const fields = jwk.parse(typeof given === 'string' ? JSON.parse(given) : given)
    if (fields.kty === 'oct') throw new KeyError('publicKey is a symmetric JWK: use sharedSecret instead')
    if ('d' in fields) throw new KeyError('publicKey is a private JWK: use only its public half')
    // The key is a JWK here, and createPublicKey checks its fields.
    return createPublicKey({ key: fields as JsonWebKey, format: 'jwk' })
  } catch (cause) {
    if (cause instanceof KeyError) throw cause
    throw new KeyError('publicKey must be a PEM public key (SPKI) or a public JWK', { cause })
  }
}

function algorithmsOf(key: KeyObject): string[] {
  const type = key.asymmetricKeyType
  const curve = key.asymmetricKeyDetails?.namedCurve
  if (type === 'rsa') {
    if ((key.asymmetricKeyDetails?.modulusLength ?? 0) < 2048) throw new KeyError('publicKey: RSA needs 2048 bits')
    return rsa
  }
  if (type === 'ed25519') return edwards
  const algorithm = type === 'ec' && curve !== undefined ? ecdsa[curve] : undefined
  if (algorithm === undefined) throw new KeyError('publicKey must be RSA, P-256, P-384, P-521 or Ed25519')
  return [algorithm]
}

/** @throws KeyError with the problem of the key */
export function verificationKey(configuration: AuthenticationConfiguration): VerificationKey {
  const { jwksUrl, publicKey, sharedSecret } = configuration
  if (jwksUrl !== undefined) {
    const key = createRemoteJWKSet(new URL(jwksUrl), {
      timeoutDuration: 5_000,
      cooldownDuration: 30_000,
      cacheMaxAge: 600_000,
    })
    return { algorithms: [...rsa, ...Object.values(ecdsa), ...edwards], key }
  }
  if (publicKey !== undefined) {
    const key = parsePublicKey(publicKey)
    return { algorithms: algorithmsOf(key), key: async () => key }
  }
  const secret = new TextEncoder().encode(sharedSecret)
  return { algorithms: hmac, key: async () => secret }
}
