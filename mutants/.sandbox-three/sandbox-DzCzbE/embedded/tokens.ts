/**
 * Access tokens of an embedded installation: a key pair of its own, made at its first start, signs JWTs that the API
 * verifies with the public half. A token is made from the key on disk, so it takes no running server.
 */
// @ts-nocheck

import { readFile, rename, writeFile } from 'node:fs/promises'
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose'
import { memberId, tenantId } from '../crds/index.ts'
import { EmbeddedError } from './errors.ts'
import { pathsOf } from './settings.ts'

export const issuer = 'espalier-embedded'
export const audience = 'espalier'
const algorithm = 'EdDSA'

/** Claims that the token's own fields decide; a further claim cannot name them. */
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

/** The public key that tokens are verified with; makes the pair at the first start. */
export async function ensureTokenKey(home: string): Promise<JWK> {
  let jwk = await readKey(home)
  if (jwk === undefined) {
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true })
    jwk = await exportJWK(privateKey)
    const path = pathsOf(home).tokenKey
    await writeFile(`${path}.new`, JSON.stringify(jwk), { mode: 0o600, flush: true })
    await rename(`${path}.new`, path)
  }
  const { kty, crv, x } = jwk
  return { kty, crv, x, alg: algorithm, use: 'sig' } as JWK
}

/** @throws EmbeddedError where nothing is installed there, a claim is reserved, or an id is none that the API takes */
export async function mintToken(home: string, request: TokenRequest, now: number = Date.now()): Promise<string> {
  const jwk = await readKey(home)
  if (jwk === undefined) {
    throw new EmbeddedError(`no installation at ${home}: start one with \`make run\`, or set ESPALIER_HOME`)
  }
  for (const [flag, schema, value] of [
    ['--tenant', tenantId, request.tenant],
    ['--subject', memberId, request.subject],
  ] as const) {
    const [issue] = schema.safeParse(value).error?.issues ?? []
    if (issue !== undefined) throw new EmbeddedError(`${flag} ${issue.message}`)
  }
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
