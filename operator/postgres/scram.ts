/**
 * Password verifiers of SCRAM-SHA-256 (RFC 5802 section 3, RFC 7677) in Postgres's format:
 * `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`. The operator sets a role's verifier. So it never sends
 * the password, and no SQL statement contains the password.
 */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'

const derive = promisify(pbkdf2)

/** Postgres's default. The operator's passwords are random, so more rounds would not protect them better. */
export const mintedIterations = 4096
/** A stored verifier is untrusted. A verifier with more rounds is not computed, and matches nothing. */
const mostIterations = 100_000

const hmac = (key: Uint8Array, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/**
 * Printable ASCII is its own SASLprep form (RFC 4013); all passwords that the operator creates are printable ASCII.
 * @throws RangeError for any other
 */
function assertPlain(password: string): void {
  if (!/^[\x20-\x7e]+$/.test(password)) throw new RangeError('a password must be printable ASCII')
}

async function keys(password: string, salt: Uint8Array, rounds: number): Promise<{ stored: Buffer; server: Buffer }> {
  const salted = await derive(password, salt, rounds, 32, 'sha256')
  const stored = createHash('sha256').update(hmac(salted, 'Client Key')).digest()
  return { stored, server: hmac(salted, 'Server Key') }
}

/** A verifier for a password, with a fresh salt. @throws RangeError unless the password is printable ASCII */
export async function scramVerifier(password: string, salt: Uint8Array = randomBytes(16)): Promise<string> {
  assertPlain(password)
  const { stored, server } = await keys(password, salt, mintedIterations)
  const encoded = Buffer.from(salt).toString('base64')
  return `SCRAM-SHA-256$${mintedIterations}:${encoded}$${stored.toString('base64')}:${server.toString('base64')}`
}

const form = /^SCRAM-SHA-256\$([0-9]{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)$/

/**
 * The number of rounds to compare a password with a stored verifier. Undefined if the verifier is not compared with any
 * password.
 */
export function verifierIterations(verifier: string): number | undefined {
  const count = Number(form.exec(verifier)?.[1])
  return count >= 1 && count <= mostIterations ? count : undefined
}

/**
 * Whether a stored verifier matches this password. False without a verifier, or if it has another method. In constant
 * time.
 */
export async function fitsVerifier(password: string, verifier: string | null): Promise<boolean> {
  assertPlain(password)
  const count = verifierIterations(verifier ?? '')
  if (count === undefined) return false
  const [, , salt = '', storedKey = '', serverKey = ''] = form.exec(verifier ?? '') ?? []
  const own = await keys(password, Buffer.from(salt, 'base64'), count)
  const given = Buffer.concat([Buffer.from(storedKey, 'base64'), Buffer.from(serverKey, 'base64')])
  const expected = Buffer.concat([own.stored, own.server])
  return given.length === expected.length && timingSafeEqual(given, expected)
}
