import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  atFault,
  clock,
  make,
  passphrase,
  refusal,
  sign,
  signAnything,
  undecodable,
  without,
} from './testing/tokens.ts'

const start = clock.seconds
beforeEach(() => {
  clock.seconds = start
})

const noSuitableKey = undecodable('no suitable key')
const notVerified = undecodable('not verified')

describe('without a token', () => {
  test.each([undefined, '', 'Basic dTpw', 'Digest x'])('%j is anonymous, and the result is synchronous', header => {
    const anonymous = { role: undefined, claims: {}, authenticated: false }
    expect(make().authenticate(header)).toEqual(anonymous)
    expect(without().authenticate(header)).toEqual(anonymous)
  })
})

test("without a configured secret, a token is the server's fault, and the client gets no challenge", async () => {
  const lacks = { kind: 'no secret' }
  expect(await refusal(without(), `Bearer ${await sign({ role: 'author' })}`)).toEqual(lacks)
  expect(await refusal(without(), 'Bearer')).toEqual(lacks)
})

describe('a passphrase', () => {
  test('accepts a token that it signed', async () => {
    const claims = { role: 'author', id: 'jdoe', nested: { a: [1] } }
    expect(await make().authenticate(`Bearer ${await sign(claims)}`)).toEqual({
      role: 'author',
      claims,
      authenticated: true,
    })
    expect(await make().authenticate(`bearer ${await sign(claims)}`)).toMatchObject({ role: 'author' })
    expect(
      await make({ jwtSecret: Buffer.from(passphrase) }).authenticate(`Bearer ${await sign(claims)}`),
    ).toMatchObject({
      role: 'author',
    })
  })

  test("reads a claim by its own name, whatever another client's token contained before", async () => {
    const [authenticator, base64url] = [make(), (text: string) => Buffer.from(text).toString('base64url')]
    const duplicateKeyToken = `Bearer ${base64url('{"sub":"v","role":"author","pr\\\\u00":"x"}')}.${base64url('{}')}.AAAA`
    await refusal(authenticator, duplicateKeyToken)
    const { claims } = await authenticator.authenticate(
      `Bearer ${signAnything({ alg: 'HS256' }, '{"sub":"v","role":"author","pr\\u00e9nom":"x"}')}`,
    )
    expect(claims).toEqual({ sub: 'v', role: 'author', prénom: 'x' })
  })

  test("without a role, a token uses the anonymous role, with the token's claims", async () => {
    expect(await make().authenticate(`Bearer ${await sign({ id: 1 })}`)).toEqual({
      role: undefined,
      claims: { id: 1 },
      authenticated: false,
    })
  })

  test('refuses tokens of another signer, and modified tokens', async () => {
    expect(await refusal(make(), `Bearer ${await sign({ role: 'author' }, randomBytes(32))}`)).toEqual(notVerified)
    const [header, , signature] = (await sign({ role: 'author' })).split('.')
    const payload = Buffer.from('{"role":"admin"}').toString('base64url')
    expect(await refusal(make(), `Bearer ${header}.${payload}.${signature}`)).toEqual(notVerified)
    expect(await refusal(make(), `Bearer ${header}.${payload}.`)).toEqual(notVerified)
  })

  test('refuses other algorithms and any key id', async () => {
    const key = Buffer.from(passphrase.repeat(2))
    const authenticator = make({ jwtSecret: passphrase.repeat(2) })
    expect(await refusal(authenticator, `Bearer ${await sign({}, key, { alg: 'HS512' })}`)).toEqual(noSuitableKey)
    expect(await refusal(authenticator, `Bearer ${await sign({}, key, { alg: 'HS256', kid: 'a' })}`)).toEqual(
      noSuitableKey,
    )
  })

  test('refuses unknown critical extensions', async () => {
    const token = signAnything({ alg: 'HS256', crit: ['x'], x: 1 }, '{"role":"author"}')
    expect(await refusal(make(), `Bearer ${token}`)).toEqual(notVerified)
  })

  test('claims that are not an object are refused, although they are signed', async () => {
    expect(await refusal(make(), `Bearer ${signAnything({ alg: 'HS256' }, '[]')}`)).toEqual(atFault('not an object'))
  })
})

describe('asymmetric keys', () => {
  const [first, second] = [
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ]
  const jwk = ({ publicKey }: { publicKey: KeyObject }) => publicKey.export({ format: 'jwk' })
  const set = (...keys: unknown[]) => make({ jwtSecret: JSON.stringify({ keys }) })

  test.each([
    ['RS256', 'rsa', first],
    ['PS384', 'rsa', first],
    ['ES256', 'P-256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
    ['ES384', 'P-384', generateKeyPairSync('ec', { namedCurve: 'P-384' })],
    ['ES512', 'P-521', generateKeyPairSync('ec', { namedCurve: 'P-521' })],
    ['EdDSA', 'Ed25519', generateKeyPairSync('ed25519')],
  ])('%s is verified with a key of type %s', async (alg, _type, pair) => {
    const authenticator = make({ jwtSecret: JSON.stringify(jwk(pair)) })
    const token = await sign({ role: 'author' }, pair.privateKey, { alg })
    expect(await authenticator.authenticate(`Bearer ${token}`)).toMatchObject({ role: 'author', authenticated: true })
  })

  test('the public key is not a secret: HS256 with it is refused', async () => {
    const authenticator = make({ jwtSecret: JSON.stringify(jwk(first)) })
    const spki = first.publicKey.export({ format: 'pem', type: 'spki' })
    for (const secret of [Buffer.from(spki), Buffer.from(JSON.stringify(jwk(first)))])
      expect(await refusal(authenticator, `Bearer ${await sign({ role: 'admin' }, secret)}`)).toEqual(noSuitableKey)
  })

  test('without a kid, all keys are tried in order', async () => {
    const token = await sign({ role: 'author' }, second.privateKey, { alg: 'RS256' })
    expect(await set(jwk(first), jwk(second)).authenticate(`Bearer ${token}`)).toMatchObject({ role: 'author' })
    expect(await refusal(set(jwk(first)), `Bearer ${token}`)).toEqual(notVerified)
  })

  test('with a kid, only the key with that id is tried', async () => {
    const token = await sign({ role: 'author' }, second.privateKey, { alg: 'RS256', kid: 'b' })
    const known = set({ ...jwk(first), kid: 'a' }, { ...jwk(second), kid: 'b' })
    expect(await known.authenticate(`Bearer ${token}`)).toMatchObject({ role: 'author' })
    expect(await refusal(set({ ...jwk(first), kid: 'b' }, { ...jwk(second), kid: 'a' }), `Bearer ${token}`)).toEqual(
      notVerified,
    )
    expect(await refusal(set(jwk(first), jwk(second)), `Bearer ${token}`)).toEqual(noSuitableKey)
  })
})

describe('claims', () => {
  test('a token expires while its signature is cached', async () => {
    const authenticator = make()
    const header = `Bearer ${await sign({ role: 'author', exp: start + 60 })}`
    expect(await authenticator.authenticate(header)).toMatchObject({ role: 'author' })
    clock.seconds = start + 90
    expect(authenticator.authenticate(header)).toMatchObject({ role: 'author' })
    clock.seconds = start + 91
    expect(() => authenticator.authenticate(header)).toThrow('token refused: expired')
    expect(await refusal(authenticator, header)).toEqual(atFault('expired'))
  })

  test('the audience is checked if it is configured', async () => {
    const header = `Bearer ${await sign({ role: 'author', aud: ['theirs'] })}`
    expect(await make().authenticate(header)).toMatchObject({ role: 'author' })
    expect(await make({ audience: 'theirs' }).authenticate(header)).toMatchObject({ role: 'author' })
    expect(await refusal(make({ audience: 'ours' }), header)).toEqual(atFault('other audience'))
  })

  test('the role is read from its path, and then the claim "role" has no special meaning', async () => {
    const header = `Bearer ${await sign({ role: 'admin', realm: { roles: ['x', 'author'] } })}`
    expect(await make({ roleClaimKey: '.realm.roles[?(@ ^== "a")]' }).authenticate(header)).toMatchObject({
      role: 'author',
    })
    expect(await make({ roleClaimKey: '.elsewhere' }).authenticate(header)).toMatchObject({ role: undefined })
  })
})

describe('the cache', () => {
  test('answers synchronously for cached tokens, whatever the claims', async () => {
    const authenticator = make()
    const [good, expired] = [
      `Bearer ${await sign({ role: 'author' })}`,
      `Bearer ${await sign({ role: 'author', exp: 1 })}`,
    ]
    const pending = authenticator.authenticate(good)
    expect(pending).toBeInstanceOf(Promise)
    const answer = await pending
    expect(authenticator.authenticate(good)).toEqual(answer)
    await expect(authenticator.authenticate(expired)).rejects.toThrow('token refused: expired')
    expect(() => authenticator.authenticate(expired)).toThrow('token refused: expired')
  })

  test('caches nothing if its capacity is 0', async () => {
    const authenticator = make({ cacheMaxEntries: 0 })
    const header = `Bearer ${await sign({ role: 'author' })}`
    await authenticator.authenticate(header)
    expect(authenticator.authenticate(header)).toBeInstanceOf(Promise)
  })

  test('evicts entries beyond its capacity', async () => {
    const authenticator = make({ cacheMaxEntries: 1 })
    const [one, two] = [`Bearer ${await sign({ role: 'one' })}`, `Bearer ${await sign({ role: 'two' })}`]
    await authenticator.authenticate(one)
    await authenticator.authenticate(two)
    expect(authenticator.authenticate(two)).toMatchObject({ role: 'two' })
    expect(authenticator.authenticate(one)).toBeInstanceOf(Promise)
  })

  test('reports hits and evictions', async () => {
    const events: string[] = []
    const authenticator = make({ cacheMaxEntries: 1, onCache: event => events.push(event) })
    const [one, two] = [`Bearer ${await sign({ role: 'one' })}`, `Bearer ${await sign({ role: 'two' })}`]
    for (const header of [one, one, two, undefined]) await authenticator.authenticate(header)
    expect(events).toEqual(['lookup', 'lookup', 'hit', 'lookup', 'eviction'])
  })

  test('does not cache refused tokens', async () => {
    const authenticator = make()
    const header = `Bearer ${await sign({ role: 'author' }, randomBytes(32))}`
    expect(await refusal(authenticator, header)).toEqual(notVerified)
    expect(await refusal(authenticator, header)).toEqual(notVerified)
  })

  test('returns claims that one request cannot change for the next request', async () => {
    const authenticator = make()
    const header = `Bearer ${await sign({ role: 'author', list: [{ a: 1 }] })}`
    const { claims } = await authenticator.authenticate(header)
    expect(() => Object.assign(claims, { role: 'admin' })).toThrow(TypeError)
    expect(() => Object.assign(Object(claims.list)[0], { a: 2 })).toThrow(TypeError)
  })

  test('answers concurrent requests independently', async () => {
    const authenticator = make({ cacheMaxEntries: 3 })
    const roles = Array.from({ length: 200 }, (_, at) => `role${at % 7}`)
    const headers = await Promise.all(roles.map(async role => `Bearer ${await sign({ role })}`))
    const answers = await Promise.all(headers.map(async header => authenticator.authenticate(header)))
    expect(answers.map(answer => answer.role)).toEqual(roles)
  })
})

describe('settings', () => {
  test.each([
    [{ jwtSecret: 'short' }, 'jwtSecret: must be at least 32 characters long'],
    [{ jwtSecret: '' }, 'jwtSecret: must be at least 32 characters long'],
    [{ roleClaimKey: 'role' }, 'roleClaimKey: expected "." at character 1 of "role"'],
  ])('%j is refused', (settings, rule) => {
    expect(() => make(settings)).toThrow(rule)
  })
})
