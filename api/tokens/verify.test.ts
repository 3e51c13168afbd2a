/** Tokens: valid tokens, and every way in which a token can be invalid. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, exportSPKI, generateKeyPair, type JWK, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AuthenticationConfiguration, apiConfiguration } from '../configuration.ts'
import { ApiError } from '../errors.ts'
import { audience, issuer, secret, token } from '../testing/harness.ts'
import { KeyError } from './keys.ts'
import { createVerifier } from './verify.ts'

type Keys = Awaited<ReturnType<typeof generateKeyPair>>
let ed: Keys
let rsa: Keys
let ec: Keys
beforeAll(async () => {
  const generate = (algorithm: string) => generateKeyPair(algorithm, { extractable: true })
  ;[ed, rsa, ec] = await Promise.all([generate('EdDSA'), generate('RS256'), generate('ES256')])
})

const configure = (authentication: object): AuthenticationConfiguration =>
  apiConfiguration.parse({ authentication: { issuer, audience, ...authentication } }).authentication

const seconds = () => Math.floor(Date.now() / 1000)
const payload = (changes: object = {}) => ({
  iss: issuer,
  aud: audience,
  exp: seconds() + 600,
  tenant: 'acme',
  sub: 'ada',
  ...changes,
})
const sign = (key: Keys, alg: string, header: object = {}, changes: object = {}) =>
  new SignJWT(payload(changes)).setProtectedHeader({ alg, ...header }).sign(key.privateKey)

const refusalOf = async (verify: ReturnType<typeof createVerifier>, given: string): Promise<ApiError> => {
  try {
    await verify(given)
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('the token was accepted')
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('with a shared secret', () => {
  const verify = createVerifier(configure({ sharedSecret: secret }), Date.now)

  test('returns tenant and subject', async () => {
    expect(await verify(await token())).toMatchObject({ tenantId: 'acme', subject: 'ada' })
  })

  test.each([
    ['expired', { exp: seconds() - 31 }, 'the token has expired'],
    ['without expiry', { exp: undefined }, "the token's exp claim is not accepted here"],
    ['of another issuer', { iss: 'https://elsewhere.test' }, "the token's iss claim is not accepted here"],
    ['for another audience', { aud: 'elsewhere' }, "the token's aud claim is not accepted here"],
    ['not valid yet', { nbf: seconds() + 60 }, "the token's nbf claim is not accepted here"],
    ['without a tenant', { tenant: undefined }, "the token's tenant claim is not accepted here"],
    ['with a tenant that is not text', { tenant: ['acme'] }, "the token's tenant claim contains no tenant"],
    ['with an empty tenant', { tenant: '' }, "the token's tenant claim contains no tenant"],
    ['with a tenant that is too long', { tenant: 'a'.repeat(201) }, "the token's tenant claim contains no tenant"],
    ['without a subject', { sub: undefined }, "the token's sub claim is not accepted here"],
    ['with an empty subject', { sub: '' }, "the token's sub claim is empty"],
  ])('a token %s is refused', async (_what, claims, message) => {
    const refused = await refusalOf(verify, await token(claims))
    expect(refused).toMatchObject({ status: 401, message })
    expect(refused.headers['WWW-Authenticate']).toContain('error="invalid_token"')
  })

  test('accepts clocks that differ by 30 seconds', async () => {
    expect(await verify(await token({ exp: seconds() - 25 }))).toMatchObject({ subject: 'ada' })
    expect(await verify(await token({ nbf: seconds() + 25 }))).toMatchObject({ subject: 'ada' })
  })

  test('refuses unsigned tokens, alg none, another key, a changed payload, and garbage', async () => {
    const [header, body, signature] = (await token()).split('.')
    const none = (alg: string) => `${encode({ alg })}.${encode(payload())}.`
    const bad = [
      none('none'),
      none('None'),
      none('NONE'),
      `${none('HS256')}`,
      `${header}.${body}.`,
      `${header}.${body}`,
      await token({}, 'another secret of more than 32 bytes!!'),
      `${header}.${encode(payload({ tenant: 'other' }))}.${signature}`,
      `${encode({ alg: 'HS256', crit: ['x'], x: 1 })}.${body}.${signature}`,
      '..',
      '...',
      'a.b.c',
      'x',
      '\u00e9',
      'null',
    ]
    for (const given of bad) expect(await refusalOf(verify, given)).toMatchObject({ status: 401 })
  })

  test('refuses an oversized token without parsing it', async () => {
    expect(await refusalOf(verify, 'a'.repeat(8193))).toMatchObject({ status: 401, message: 'the token is too long' })
  })
})

describe('with a public key', () => {
  test('accepts PEM and JWK, each only with the algorithms of its type', async () => {
    const pem = await exportSPKI(ed.publicKey)
    const jwk = await exportJWK(ec.publicKey)
    const byPem = createVerifier(configure({ publicKey: pem }), Date.now)
    const byJwk = createVerifier(configure({ publicKey: jwk }), Date.now)
    const byText = createVerifier(configure({ publicKey: JSON.stringify(await exportJWK(rsa.publicKey)) }), Date.now)
    expect(await byPem(await sign(ed, 'EdDSA'))).toMatchObject({ tenantId: 'acme' })
    expect(await byJwk(await sign(ec, 'ES256'))).toMatchObject({ tenantId: 'acme' })
    expect(await byText(await sign(rsa, 'RS256'))).toMatchObject({ tenantId: 'acme' })
    for (const [verify, given] of [
      [byPem, await sign(ec, 'ES256')],
      [byJwk, await sign(rsa, 'RS256')],
      [byText, await sign(ed, 'EdDSA')],
    ] as const) {
      expect(await refusalOf(verify, given)).toMatchObject({ status: 401 })
    }
  })

  test('refuses an HMAC keyed with the public key', async () => {
    const pem = await exportSPKI(rsa.publicKey)
    const verify = createVerifier(configure({ publicKey: pem }), Date.now)
    for (const key of [pem, pem.trim(), JSON.stringify(await exportJWK(rsa.publicKey))]) {
      for (const algorithm of ['HS256', 'HS384', 'HS512']) {
        const refused = await refusalOf(verify, await token({}, key, algorithm))
        expect(refused).toMatchObject({ status: 401, message: "the token's signature algorithm is not accepted here" })
      }
    }
  })

  test('does not use a key inside the token', async () => {
    const verify = createVerifier(configure({ publicKey: await exportSPKI(rsa.publicKey) }), Date.now)
    const own = await generateKeyPair('RS256', { extractable: true })
    const jwk = await exportJWK(own.publicKey)
    for (const header of [
      { jwk },
      { jku: 'http://127.0.0.1:1/keys' },
      { x5u: 'http://127.0.0.1:1/keys' },
      { kid: '../../etc/passwd' },
    ]) {
      expect(await refusalOf(verify, await sign(own, 'RS256', header))).toMatchObject({ status: 401 })
    }
  })

  test('refuses an invalid public key at the start', async () => {
    const privateJwk = await exportJWK(ed.privateKey)
    const bad: unknown[] = [
      'nonsense',
      '{}',
      { kty: 'oct', k: 'c2VjcmV0' },
      privateJwk,
      { kty: 'RSA' },
      '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----',
    ]
    for (const publicKey of bad) {
      expect(() => createVerifier(configure({ publicKey }), Date.now), JSON.stringify(publicKey)).toThrow(KeyError)
    }
  })
})

describe('with a JWKS', () => {
  let server: Server
  let url: string
  let keys: JWK[]
  let requests = 0
  let broken = false
  beforeAll(async () => {
    keys = [{ ...(await exportJWK(rsa.publicKey)), kid: 'one', alg: 'RS256' }]
    server = createServer((_request, response) => {
      requests++
      response.writeHead(broken ? 500 : 200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys }))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  })
  afterAll(() => new Promise(resolve => server.close(resolve)))

  test('fetches the keys once, and refuses unknown keys without fetching again immediately', async () => {
    const verify = createVerifier(configure({ jwksUrl: url }), Date.now)
    expect(await verify(await sign(rsa, 'RS256', { kid: 'one' }))).toMatchObject({ tenantId: 'acme' })
    for (let n = 0; n < 5; n++) {
      const given = await sign(ec, 'ES256', { kid: `unknown-${n}` })
      expect(await refusalOf(verify, given)).toMatchObject({ status: 401 })
    }
    expect(requests).toBe(1)
    expect(await refusalOf(verify, await token({}, await exportSPKI(rsa.publicKey)))).toMatchObject({ status: 401 })
  })

  test('unavailable keys cause a 503, not the error of an invalid token', async () => {
    const verify = createVerifier(configure({ jwksUrl: url }), Date.now)
    broken = true
    const given = await sign(rsa, 'RS256', { kid: 'one' })
    expect(await refusalOf(verify, given)).toMatchObject({ status: 503, headers: { 'Retry-After': '2' } })
    broken = false
    const nowhere = createVerifier(configure({ jwksUrl: 'http://127.0.0.1:1/keys' }), Date.now)
    expect(await refusalOf(nowhere, given)).toMatchObject({ status: 503 })
  })
})

describe('tokens that were verified before', () => {
  test('are cached until they expire, for five minutes at most, and up to a maximum number', async () => {
    let now = Date.now()
    const verify = createVerifier(configure({ sharedSecret: secret, cachedTokens: 2 }), () => now)
    const given = [await token({ sub: 'a' }), await token({ sub: 'b' }), await token({ sub: 'c' })]
    const isCached = (text = '') => !(verify(text) instanceof Promise)
    for (const text of given) await verify(text)
    expect(given.map(isCached)).toEqual([false, true, true])
    await verify(given[0] ?? '')
    now += 301_000
    expect(isCached(given[0])).toBe(false)
    const short = await token({ sub: 'd', exp: Math.floor(now / 1000) + 10 })
    await verify(short)
    expect(isCached(short)).toBe(true)
    now += 41_000
    expect(await refusalOf(verify, short)).toMatchObject({ message: 'the token has expired' })
  })

  test('are not cached if the cache is off', async () => {
    const verify = createVerifier(configure({ sharedSecret: secret, cachedTokens: 0 }), Date.now)
    const given = await token({ sub: 'a' })
    for (let times = 0; times < 2; times++) {
      const verified = verify(given)
      expect(verified).toBeInstanceOf(Promise)
      expect(await verified).toMatchObject({ subject: 'a' })
    }
  })
})

describe('configuration', () => {
  test.each([
    [{}, /exactly one of/],
    [{ sharedSecret: secret, publicKey: 'x' }, /exactly one of/],
    [{ sharedSecret: 'short' }, /at least 32 bytes/],
    [{ sharedSecret: '-----BEGIN PUBLIC KEY-----aaaaaaaaaaaaaaaaaa' }, /must not be a PEM key/],
    [{ jwksUrl: 'http://keys.test/jwks' }, /https/],
    [{ jwksUrl: 'file:///etc/passwd' }, /./],
    [{ sharedSecret: secret, audience: '' }, /audience/],
    [{ sharedSecret: secret, extra: 1 }, /extra/],
  ])('%j is refused', (authentication, message) => {
    expect(() => configure(authentication)).toThrow(message)
  })
})
