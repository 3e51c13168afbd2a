import { describe, expect, test } from 'vitest'
import { bearerToken } from './bearer.ts'
import { AuthenticationError, type Refusal } from './errors.ts'
import { undecodable } from './testing/tokens.ts'
import { parseToken } from './token.ts'

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const withHeader = (header: unknown) => `${encode(header)}.${encode({})}.c2ln`

function refusal(text: string): Refusal {
  try {
    parseToken(text)
  } catch (error) {
    if (!(error instanceof AuthenticationError)) throw error
    return error.refusal
  }
  throw new Error('was taken')
}

const malformed = undecodable('malformed')

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
  ])('%j gives %j', (header, token) => {
    expect(bearerToken(header)).toBe(token)
  })
})

describe('the three parts', () => {
  test('an empty token is reported as an empty token', () => {
    expect(refusal('')).toEqual(undecodable('empty'))
  })

  test.each([
    ['a', 1],
    ['a.b', 2],
    ['a.b.c.d', 4],
    ['a.b.c.d.e', 5],
    ['.', 2],
  ])('%s has %i parts', (text, count) => {
    expect(refusal(text)).toEqual({ kind: 'undecodable', reason: { kind: 'parts', count } })
  })

  test('a token without a signature is not decoded', () => {
    expect(refusal(`${encode({ alg: 'none' })}.${encode({ role: 'admin' })}.`)).toEqual(undecodable('unsecured'))
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

  test('the algorithm and the key id are read', () => {
    expect(parseToken(withHeader({ alg: 'RS256' }))).toMatchObject({ algorithm: 'RS256', keyId: undefined })
    expect(parseToken(withHeader({ alg: 'RS256', kid: null }))).toMatchObject({ keyId: undefined })
    expect(parseToken(withHeader({ alg: 'RS256', kid: '' }))).toMatchObject({ keyId: '' })
    expect(parseToken(withHeader({ alg: 'RS256', kid: 'k1' }))).toMatchObject({ keyId: 'k1' })
  })
})
