import { describe, expect, test } from 'vitest'
import { RestError } from '../rest/errors/rest-error.ts'
import { bearerToken, parseToken } from './token.ts'

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const withHeader = (header: unknown) => `${encode(header)}.${encode({})}.c2ln`

function refusal(text: string): Pick<RestError, 'status' | 'code' | 'message' | 'details'> {
  try {
    parseToken(text)
  } catch (error) {
    if (!(error instanceof RestError)) throw error
    const { status, code, message, details, headers } = error
    expect(headers).toEqual([['WWW-Authenticate', `Bearer error="invalid_token", error_description="${message}"`]])
    return { status, code, message, details }
  }
  throw new Error('was taken')
}

const malformed = { status: 401, code: 'RST301', message: 'JWT cryptographic operation failed', details: null }

describe('the scheme', () => {
  test.each([
    [undefined, undefined],
    ['', undefined],
    ['Basic a.b.c', undefined],
    ['Bearertoken', undefined],
    [' Bearer a', undefined],
    ['Token Bearer a', undefined],
    ['Bearer a.b.c', 'a.b.c'],
    ['bearer a.b.c', 'a.b.c'],
    ['BEARER a.b.c', 'a.b.c'],
    ['Bearer \t a.b.c \t', 'a.b.c'],
    ['Bearer', ''],
    ['Bearer ', ''],
    ['Bearer a b', 'a b'],
  ])('%j brings %j', (header, token) => {
    expect(bearerToken(header)).toBe(token)
  })
})

describe('the parts', () => {
  test('an empty token says so', () => {
    expect(refusal('')).toEqual({ ...malformed, message: 'Empty JWT is sent in Authorization header' })
  })

  test.each([
    ['a', 1],
    ['a.b', 2],
    ['a.b.c.d', 4],
    ['a.b.c.d.e', 5],
    ['.', 2],
  ])('%s has %i', (text, count) => {
    expect(refusal(text)).toEqual({ ...malformed, message: `Expected 3 parts in JWT; got ${count}` })
  })

  test('a token without a signature is not decoded', () => {
    expect(refusal(`${encode({ alg: 'none' })}.${encode({ role: 'admin' })}.`)).toEqual({
      ...malformed,
      message: 'Wrong or unsupported encoding algorithm',
      details: "JWT is unsecured but expected 'alg' was not 'none'",
    })
  })

  test.each([
    '..',
    'random.text.here',
    `${encode({ alg: 'HS256' })}.=.c2ln`,
    `${encode({ alg: 'HS256' })}.e30.a`,
    `${encode({ alg: 'HS256' })}.e30.+/==`,
    withHeader([]),
    withHeader(null),
    withHeader('HS256'),
    withHeader({}),
    withHeader({ alg: 1 }),
    withHeader({ alg: 'HS256', kid: 1 }),
    withHeader({ alg: 'HS256', b64: false, crit: ['b64'] }),
    `${Buffer.from('{"alg":"\xff"}', 'latin1').toString('base64url')}.e30.c2ln`,
    withHeader({ alg: 'HS256', long: 'x'.repeat(65_536) }),
  ])('malformed: %.60s', text => {
    expect(refusal(text)).toEqual(malformed)
  })

  test('the algorithm and the key it names are read', () => {
    expect(parseToken(withHeader({ alg: 'RS256' }))).toMatchObject({ algorithm: 'RS256', keyId: undefined })
    expect(parseToken(withHeader({ alg: 'RS256', kid: null }))).toMatchObject({ keyId: undefined })
    expect(parseToken(withHeader({ alg: 'RS256', kid: '' }))).toMatchObject({ keyId: '' })
    expect(parseToken(withHeader({ alg: 'RS256', kid: 'k1' }))).toMatchObject({ keyId: 'k1' })
  })
})
