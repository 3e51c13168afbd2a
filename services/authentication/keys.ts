/**
 * Verification keys from a service's secret: an HMAC-SHA256 passphrase, a JSON Web Key or a key set (RFC 7517, RFC
 * 7518). Each key has its allowed algorithms, so a token cannot choose how a key is used: neither RSA's public key as
 * an HMAC secret nor "none". Errors contain the setting, the key's position in the set and the rule, and never a part
 * of a key.
 */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { z } from 'zod'
import { isRecord } from '../../values/record.ts'
import { SettingError } from './errors.ts'
import type { Token } from './token.ts'

/** PostgREST's minimum length of a passphrase, and the minimum HMAC-SHA256 key (RFC 7518, section 3.2), in bytes. */
const leastSecret = 32
/** RFC 7518, section 3.3, in bits. */
const leastModulus = 2048

const hmacAlgorithms = ['HS256', 'HS384', 'HS512']
const rsaAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']
const curveAlgorithms: Readonly<Record<string, readonly string[]>> = {
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}

export type VerificationKey = {
  readonly id: string | undefined
  readonly algorithms: readonly string[]
  /** Bytes for HMAC, or else a public key. */
  readonly material: Uint8Array | KeyObject
}

const base64urlText = z.string().regex(/^[A-Za-z0-9_-]+$/)
const jsonWebKey = z.object({
  kty: z.string(),
  kid: z.string().optional(),
  use: z.string().optional(),
  alg: z.string().optional(),
  key_ops: z.array(z.string()).optional(),
  k: base64urlText.optional(),
  n: base64urlText.optional(),
  e: base64urlText.optional(),
  crv: z.string().optional(),
  x: base64urlText.optional(),
  y: base64urlText.optional(),
})
type JsonWebKey = z.infer<typeof jsonWebKey>

/**
 * The keys that can verify a token, in the set's order: the keys for its algorithm and, if the token has a `kid`, with
 * that id.
 */
export function suitableKeys(keys: readonly VerificationKey[], token: Token): VerificationKey[] {
  return keys.filter(
    key => (token.keyId === undefined || token.keyId === key.id) && key.algorithms.includes(token.algorithm),
  )
}

/**
 * Reads a secret: text, or bytes that were decoded from Base64.
 * @throws SettingError
 */
export function parseSecret(secret: string | Uint8Array): VerificationKey[] {
  const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString('utf8')
  const json = parseJson(text)
  if (isRecord(json)) return 'keys' in json ? keysOfSet(json.keys) : [keyOfSingle(json)]
  refuseMishaps(text)
  return [passphrase(secret)]
}

function passphrase(secret: string | Uint8Array): VerificationKey {
  const length = typeof secret === 'string' ? [...secret].length : secret.length
  if (length < leastSecret) refuse(`must be at least ${leastSecret} characters long`)
  return { id: undefined, algorithms: ['HS256'], material: Buffer.from(secret) }
}

/** If a public key were used as a passphrase, anyone who knows the key could sign tokens. */
function refuseMishaps(text: string): void {
  if (/-----BEGIN [A-Z ]*(KEY|CERTIFICATE)-----/.test(text))
    refuse('contains a key in PEM form; an asymmetric key must be a JSON Web Key')
  if (/^\s*[[{]/.test(text) && /"?(kty|keys)\\?"?\s*:/.test(text))
    refuse('looks like a JSON Web Key, but is not a JSON object')
}

function keyOfSingle(json: Record<string, unknown>): VerificationKey {
  return (
    readKey(json, 'the JSON Web Key') ??
    refuse('is a JSON Web Key that cannot verify signatures, or is of an unknown kind')
  )
}

/** Skips keys of a set that have another use or an unknown kind (RFC 7517, section 5). */
function keysOfSet(members: unknown): VerificationKey[] {
  if (!Array.isArray(members)) refuse('"keys" of the JSON Web Key set must be an array')
  const keys = members.flatMap((member, index) => readKey(member, `key ${index + 1} of the JSON Web Key set`) ?? [])
  if (keys.length === 0) refuse('is a JSON Web Key set without a key that can verify signatures')
  return keys
}

function readKey(json: unknown, name: string): VerificationKey | undefined {
  const parsed = jsonWebKey.safeParse(json)
  if (!parsed.success) refuse(`${name} is malformed${memberAtFault(parsed.error)}`)
  const jwk = parsed.data
  const algorithms = algorithmsOf(jwk)
  if (algorithms.length === 0 || !isForSignatures(jwk)) return undefined
  return { id: jwk.kid, algorithms, material: jwk.kty === 'oct' ? secretBytes(jwk, name) : publicKey(jwk, name) }
}

/** Contains only the member's name, because its value may be secret. */
function memberAtFault(error: z.ZodError): string {
  const member = error.issues[0]?.path[0]
  return member === undefined ? '' : ` at "${String(member)}"`
}

/** A private key is accepted, too, since its public half can verify. Its operation is "sign". */
function isForSignatures(jwk: JsonWebKey): boolean {
  const operations = jwk.key_ops ?? ['verify']
  return (jwk.use ?? 'sig') === 'sig' && (operations.includes('verify') || operations.includes('sign'))
}

function algorithmsOf(jwk: JsonWebKey): readonly string[] {
  const suitable = algorithmsOfType(jwk)
  return jwk.alg === undefined ? suitable : suitable.filter(algorithm => algorithm === jwk.alg)
}

function algorithmsOfType(jwk: JsonWebKey): readonly string[] {
  switch (jwk.kty) {
    case 'oct':
      return hmacAlgorithms
    case 'RSA':
      return rsaAlgorithms
    case 'EC':
    case 'OKP':
      return jwk.crv !== undefined && Object.hasOwn(curveAlgorithms, jwk.crv) ? (curveAlgorithms[jwk.crv] ?? []) : []
    default:
      return []
  }
}

function secretBytes(jwk: JsonWebKey, name: string): Uint8Array {
  if (jwk.k === undefined) refuse(`${name} lacks "k"`)
  const bytes = Buffer.from(jwk.k, 'base64url')
  if (bytes.length < leastSecret) refuse(`${name} must be at least ${leastSecret} bytes long`)
  return bytes
}

function publicKey(jwk: JsonWebKey, name: string): KeyObject {
  const { kty, n, e, crv, x, y } = jwk
  const key = importPublicKey({ kty, n, e, crv, x, y }, name)
  const modulus = key.asymmetricKeyDetails?.modulusLength
  if (modulus !== undefined && modulus < leastModulus)
    refuse(`${name} must have a modulus of at least ${leastModulus} bits`)
  return key
}

function importPublicKey(key: JsonWebKey, name: string): KeyObject {
  try {
    return createPublicKey({ key, format: 'jwk' })
  } catch {
    // Omits crypto's message, because it may quote its input.
    return refuse(`${name} is not a valid ${key.kty} public key`)
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refuse(rule: string): never {
  throw new SettingError('jwtSecret', rule)
}
