import { generateKeyPairSync, randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseSecret, suitableKeys } from './keys.ts'

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const rsaPublic = rsa.publicKey.export({ format: 'jwk' })
const rsaPrivate = rsa.privateKey.export({ format: 'jwk' })
const curve = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' })
const octet = { kty: 'oct', k: randomBytes(32).toString('base64url') }

const parse = (key: unknown) => parseSecret(JSON.stringify(key))
const algorithms = (key: unknown) => parse(key).map(({ algorithms }) => algorithms)
const rsaAlgorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']

describe('a passphrase', () => {
  test('is only for HS256 and has no id', () => {
    const text = 'reallyreallyreallyreallyverysafe'
    expect(parseSecret(text)).toEqual([{ id: undefined, algorithms: ['HS256'], material: Buffer.from(text) }])
    expect(parseSecret(Buffer.from(text))).toEqual(parseSecret(text))
  })

  test('can be bytes that are not text', () => {
    const bytes = Buffer.alloc(32, 0xff)
    expect(parseSecret(bytes)[0]?.material).toEqual(bytes)
  })

  test('can look like JSON that is not an object', () => {
    expect(parseSecret('1'.repeat(32))).toHaveLength(1)
    expect(parseSecret(`{${'x'.repeat(31)}`)).toHaveLength(1)
  })

  test.each(['', 'x'.repeat(31), '😀'.repeat(31), Buffer.alloc(31)])('shorter than 32 is refused: %j', secret => {
    expect(() => parseSecret(secret)).toThrow('jwtSecret: must be at least 32 characters long')
  })
})

describe('a JSON Web Key', () => {
  test.each([
    [rsaPublic, rsaAlgorithms],
    [{ ...rsaPublic, alg: 'RS256', use: 'sig', key_ops: ['verify'] }, ['RS256']],
    [{ ...rsaPrivate, key_ops: ['sign'] }, rsaAlgorithms],
    [curve('P-256'), ['ES256']],
    [curve('P-384'), ['ES384']],
    [curve('P-521'), ['ES512']],
    [generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }), ['EdDSA', 'Ed25519']],
    [octet, ['HS256', 'HS384', 'HS512']],
    [{ ...octet, alg: 'HS512' }, ['HS512']],
  ])('supports the algorithms of its type %#', (key, suitable) => {
    expect(algorithms(key)).toEqual([suitable])
  })

  test('keeps only the public half of a private key', () => {
    expect(parse(rsaPrivate)[0]?.material).toMatchObject({ type: 'public' })
  })

  test.each([
    [{}, 'the JSON Web Key is malformed at "kty"'],
    [{ kty: 1 }, 'the JSON Web Key is malformed at "kty"'],
    [{ ...octet, kid: 7 }, 'the JSON Web Key is malformed at "kid"'],
    [{ kty: 'oct' }, 'the JSON Web Key lacks "k"'],
    [{ kty: 'oct', k: 'c2hvcnQ' }, 'the JSON Web Key must be at least 32 bytes long'],
    [{ kty: 'oct', k: 'a b' }, 'the JSON Web Key is malformed at "k"'],
    [{ kty: 'RSA', e: 'AQAB' }, 'the JSON Web Key is not a valid RSA public key'],
    [{ ...rsaPublic, n: 'AQAB' }, 'the JSON Web Key must have a modulus of at least 2048 bits'],
    [{ ...curve('P-256'), x: 'AAAA' }, 'the JSON Web Key is not a valid EC public key'],
    [{ ...octet, use: 'enc' }, 'cannot verify signatures'],
    [{ ...octet, alg: 'RS256' }, 'cannot verify signatures'],
    [{ ...octet, alg: 'none' }, 'cannot verify signatures'],
    [{ ...rsaPublic, alg: 'HS256' }, 'cannot verify signatures'],
    [{ ...rsaPublic, key_ops: ['wrapKey'] }, 'cannot verify signatures'],
    [{ kty: 'EC', crv: 'toString', x: 'AA', y: 'AA' }, 'cannot verify signatures'],
    [{ kty: 'unheard-of' }, 'cannot verify signatures'],
  ])('is refused %#', (key, rule) => {
    expect(() => parse(key)).toThrow('jwtSecret: ')
    expect(() => parse(key)).toThrow(rule)
  })

  test('is not treated as a passphrase if it is malformed or in PEM', () => {
    expect(() => parseSecret(JSON.stringify(rsaPublic).slice(0, -1))).toThrow('looks like a JSON Web Key')
    expect(() => parseSecret(JSON.stringify(JSON.stringify(rsaPublic)).slice(1, -1))).toThrow(
      'looks like a JSON Web Key',
    )
    expect(() => parseSecret(rsa.publicKey.export({ format: 'pem', type: 'spki' }).toString())).toThrow('in PEM form')
  })
})

describe('a key set', () => {
  test("keeps the set's order and skips keys that cannot verify", () => {
    const set = {
      keys: [{ ...octet, kid: 'a' }, { kty: 'unheard-of' }, { ...rsaPublic, use: 'enc' }, { ...rsaPublic, kid: 'b' }],
    }
    expect(parse(set).map(key => key.id)).toEqual(['a', 'b'])
  })

  test.each([
    [{ keys: {} }, '"keys" of the JSON Web Key set must be an array'],
    [{ keys: [] }, 'a JSON Web Key set without a key that can verify signatures'],
    [{ keys: [{ kty: 'unheard-of' }] }, 'a JSON Web Key set without a key that can verify signatures'],
    [{ keys: [octet, 'text'] }, 'key 2 of the JSON Web Key set is malformed'],
    [{ keys: [octet, { kty: 'oct', k: 'AA' }] }, 'key 2 of the JSON Web Key set must be at least 32 bytes long'],
  ])('is refused %#', (set, rule) => {
    expect(() => parse(set)).toThrow(`jwtSecret: `)
    expect(() => parse(set)).toThrow(rule)
  })
})

test('a key is selected by its id and its algorithms', () => {
  const keys = parse({ keys: [octet, { ...octet, kid: 'a' }, { ...rsaPublic, kid: 'a' }, { ...rsaPublic, kid: 'b' }] })
  const found = (algorithm: string, keyId?: string) =>
    suitableKeys(keys, { text: '', algorithm, keyId }).map(key => keys.indexOf(key))
  expect(found('HS256')).toEqual([0, 1])
  expect(found('HS256', 'a')).toEqual([1])
  expect(found('RS256')).toEqual([2, 3])
  expect(found('RS256', 'b')).toEqual([3])
  expect(found('RS256', 'c')).toEqual([])
  expect(found('RS256', '')).toEqual([])
  expect(found('none')).toEqual([])
})

test('any secret gives keys, or an error that names the setting and does not contain the secret', () => {
  const value = fc.string({ minLength: 12 })
  const member = fc.record(
    {
      kty: fc.constantFrom('oct', 'RSA', 'EC', 'OKP'),
      k: value,
      n: value,
      e: value,
      x: value,
      y: value,
      crv: fc.constantFrom('P-256', 'Ed25519'),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(member, key => {
      try {
        parse(key)
      } catch (error) {
        expect(String(error)).toMatch(/^Error: jwtSecret: /)
        for (const secret of [key.k, key.n, key.x])
          if (secret !== undefined) expect(String(error)).not.toContain(secret)
      }
    }),
  )
})
