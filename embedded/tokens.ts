/**
 * Access tokens of an embedded installation. The installation creates a key pair at its first start. The private key
 * signs JWTs, and the API verifies them with the public key. A command signs a token with the key on disk, so no server
 * needs to run.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import type { JWK } from 'jose'
import { SignJWT } from 'jose/jwt/sign'
import { importJWK } from 'jose/key/import'
import { EmbeddedError } from './errors.ts'
import { pathsOf } from './settings.ts'

export const issuer = 'espalier-embedded'
export const audience = 'espalier'
const algorithm = 'EdDSA'

/** Claims that the token itself sets. Additional claims cannot use these names. */
const reserved = new Set(['iss', 'aud', 'exp', 'iat', 'nbf', 'sub', 'tenant'])

type TokenRequest = {
  tenant: string
  subject: string
  /** Seconds from now. */
  expiresIn: number
  claims: Record<string, unknown>
}

async function readKey(home: string): Promise<JWK | undefined> {
  try {
    const jwk: JWK = JSON.parse(await readFile(pathsOf(home).tokenKey, 'utf8'))
    return jwk
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw new EmbeddedError(`cannot read the token key ${pathsOf(home).tokenKey}`, { cause: error })
  }
}

/** The public key that verifies tokens; creates the pair at the first start. */
export async function ensureTokenKey(home: string): Promise<JWK> {
  let jwk = await readKey(home)
  if (jwk === undefined) {
    // Only the first start needs these modules. Commands load this file too, and must start fast.
    const [{ exportJWK }, { generateKeyPair }] = await Promise.all([
      import('jose/key/export'),
      import('jose/key/generate/keypair'),
    ])
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
    jwk = await exportJWK(privateKey)
    const path = pathsOf(home).tokenKey
    await writeFile(`${path}.new`, JSON.stringify(jwk), { mode: 0o600, flush: true })
    await rename(`${path}.new`, path)
  }
  const { kty, crv, x } = jwk
  return { kty, crv, x, alg: algorithm, use: 'sig' } as JWK
}

/** Ids of this form need no schema. Loading the schema would take longer than the rest of a command's start. */
const plainId = /^[\w.-]{1,200}$/

/** @throws EmbeddedError if an id is invalid for the API */
async function checkIds({ tenant, subject }: TokenRequest): Promise<void> {
  if (plainId.test(tenant) && plainId.test(subject)) return
  const { memberId, tenantId } = await import('../crds/tenant.ts')
  for (const [flag, schema, value] of [
    ['--tenant', tenantId, tenant],
    ['--subject', memberId, subject],
  ] as const) {
    const [issue] = schema.safeParse(value).error?.issues ?? []
    if (issue !== undefined) throw new EmbeddedError(`${flag} ${issue.message}`)
  }
}

/** @throws EmbeddedError if nothing is installed there, a claim is reserved, or an id is invalid for the API */
export async function mintToken(home: string, request: TokenRequest, now: number = Date.now()): Promise<string> {
  const jwk = await readKey(home)
  if (jwk === undefined) {
    throw new EmbeddedError(
      `no installation at ${home}: start one with \`make run\`, or set ESPALIER_HOME; for another API: espalier login`,
    )
  }
  await checkIds(request)
  const clash = Object.keys(request.claims).find(claim => reserved.has(claim))
  if (clash !== undefined) throw new EmbeddedError(`--claim cannot set ${clash}`)
  const issuedAt = Math.floor(now / 1000)
  return new SignJWT({ ...request.claims, tenant: request.tenant })
    .setProtectedHeader({ alg: algorithm, typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(request.subject)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + request.expiresIn)
    .sign(await importJWK(jwk, algorithm))
}
