/**
 * Signing keys in a file that only its owner can read. The first key signs. The server publishes older keys until the
 * tokens that they signed have expired.
 */
import { randomUUID } from 'node:crypto'
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JSONWebKeySet, type JWK } from 'jose'
import { z } from 'zod'

export const algorithm = 'RS256'
export const mostKeys = 3

export const keySchema = z.looseObject({
  kty: z.literal('RSA'),
  kid: z.string(),
  n: z.string(),
  e: z.string(),
  d: z.string(),
})
const fileSchema = z.object({ keys: z.array(keySchema).nonempty() })
export type StoredKey = z.infer<typeof keySchema>

export type SigningKeys = {
  readonly kid: string
  readonly signingKey: Awaited<ReturnType<typeof importJWK>>
  /** The public keys that the endpoint publishes. */
  readonly published: JSONWebKeySet
}

export async function makeKey(): Promise<StoredKey> {
  const { privateKey } = await generateKeyPair(algorithm, { modulusLength: 2_048, extractable: true })
  const jwk = await exportJWK(privateKey)
  return keySchema.parse({ ...jwk, kid: (await calculateJwkThumbprint(jwk)).slice(0, 16) })
}

/** Writes a complete file with mode 0600. The caller then links or renames it to its final name. */
function writeTemporary(path: string, keys: readonly StoredKey[]): string {
  const temporary = `${path}.${randomUUID()}`
  writeFileSync(temporary, `${JSON.stringify({ keys }, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' })
  return temporary
}

/** If several bridges start at the same time, the first bridge writes the file, and the other bridges read it. */
function writeFirst(path: string, keys: readonly StoredKey[]): void {
  const temporary = writeTemporary(path, keys)
  try {
    linkSync(temporary, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    rmSync(temporary)
  }
}

function readKeys(path: string): readonly StoredKey[] | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  if ((statSync(path).mode & 0o077) !== 0)
    throw new Error('the signing key file must be readable by its owner alone (mode 0600)')
  try {
    return fileSchema.parse(JSON.parse(text)).keys
  } catch {
    throw new Error('the signing key file contains no usable key')
  }
}

const published = ({ kty, kid, n, e }: StoredKey): JWK => ({ kty, use: 'sig', alg: algorithm, kid, n, e })

/** @param keys the first key signs */
export async function signingKeysOf(keys: readonly StoredKey[]): Promise<SigningKeys> {
  const [first] = keys
  if (first === undefined) throw new Error('there is no key to sign with')
  return {
    kid: first.kid,
    signingKey: await importJWK({ ...first }, algorithm),
    published: { keys: keys.map(published) },
  }
}

/** Creates the file if it is missing. @throws Error with the problem of the file */
export async function loadKeys(path: string): Promise<SigningKeys> {
  if (readKeys(path) === undefined) writeFirst(path, [await makeKey()])
  return signingKeysOf(readKeys(path) ?? [])
}

/** Adds a key, which signs after the next start. Returns the key's id. */
export async function rotateKeys(path: string): Promise<string> {
  const made = await makeKey()
  renameSync(writeTemporary(path, [made, ...(readKeys(path) ?? [])].slice(0, mostKeys)), path)
  return made.kid
}
