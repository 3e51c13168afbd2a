import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importJWK, jwtVerify } from 'jose'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { EmbeddedError } from './errors.ts'
import { audience, ensureTokenKey, issuer, mintToken } from './tokens.ts'

const request = { tenant: 'acme', subject: 'ada', expiresIn: 60, claims: { team: 'blue' } }

describe('tokens of an embedded installation', () => {
  let home: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'espalier-tokens-'))
  })
  afterEach(() => rm(home, { recursive: true, force: true }))

  test('are verified with the public key, and have issuer, audience, tenant and expiry', async () => {
    const key = await importJWK(await ensureTokenKey(home), 'EdDSA')
    const { payload } = await jwtVerify(await mintToken(home, request), key, { issuer, audience })
    expect(payload).toMatchObject({ tenant: 'acme', sub: 'ada', team: 'blue' })
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(60)
  })

  test('have a key that is created once and that only its owner can read; its public half contains no secret', async () => {
    const first = await ensureTokenKey(home)
    expect(await ensureTokenKey(home)).toEqual(first)
    expect(first).not.toHaveProperty('d')
    expect((await stat(join(home, 'token-key.json'))).mode & 0o777).toBe(0o600)
  })

  test('need an installation; the error says how to install one', async () => {
    await expect(mintToken(home, request)).rejects.toThrow('make run')
  })

  test('never replace an unreadable key', async () => {
    await writeFile(join(home, 'token-key.json'), 'torn')
    await expect(ensureTokenKey(home)).rejects.toThrow(EmbeddedError)
  })

  test.each([
    [{ tenant: '' }, '--tenant must be at least 1'],
    [{ tenant: 't'.repeat(201) }, '--tenant must be at most 200'],
    [{ tenant: '\ud83d' }, '--tenant must be well-formed'],
    [{ subject: '' }, '--subject must be at least 1'],
  ])('%o is refused as by the API', async (wrong, message) => {
    await ensureTokenKey(home)
    await expect(mintToken(home, { ...request, ...wrong })).rejects.toThrow(message)
  })

  test('keep their own claims: an additional claim cannot overwrite them', async () => {
    await ensureTokenKey(home)
    await expect(mintToken(home, { ...request, claims: { exp: 1 } })).rejects.toThrow('--claim cannot set exp')
  })
})
