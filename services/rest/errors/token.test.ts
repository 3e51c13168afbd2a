/** Responses to refused tokens: each reason has a code, a status, texts and a challenge. */
import { expect, test } from 'vitest'
import { AuthenticationError, type Refusal } from '../../authentication/errors.ts'
import { anonymousRefused } from './catalogue.ts'
import { restErrorOf } from './index.ts'

const signature = (reason: Extract<Refusal, { kind: 'undecodable' }>['reason']): Refusal => ({
  kind: 'undecodable',
  reason,
})
const claims = (fault: Extract<Refusal, { kind: 'claims' }>['fault']): Refusal => ({ kind: 'claims', fault })
const noKey = 'No suitable key or wrong key type'

const refusals: [Refusal, code: string, message: string, details: string | null][] = [
  [signature({ kind: 'empty' }), 'RST301', 'Empty JWT is sent in Authorization header', null],
  [signature({ kind: 'parts', count: 2 }), 'RST301', 'Expected 3 parts in JWT; got 2', null],
  [signature({ kind: 'malformed' }), 'RST301', 'JWT cryptographic operation failed', null],
  [
    signature({ kind: 'unsecured' }),
    'RST301',
    'Wrong or unsupported encoding algorithm',
    "JWT is unsecured but expected 'alg' was not 'none'",
  ],
  [signature({ kind: 'no suitable key' }), 'RST301', noKey, 'No suitable key was found to decode the JWT'],
  [signature({ kind: 'not verified' }), 'RST301', noKey, 'None of the keys was able to decode the JWT'],
  [claims({ kind: 'not an object' }), 'RST303', 'Parsing claims failed', null],
  [claims({ kind: 'not a number', claim: 'exp' }), 'RST303', "The JWT 'exp' claim must be a number", null],
  [claims({ kind: 'expired' }), 'RST303', 'JWT expired', null],
  [claims({ kind: 'not yet valid' }), 'RST303', 'JWT not yet valid', null],
  [claims({ kind: 'issued in the future' }), 'RST303', 'JWT issued at future', null],
  [
    claims({ kind: 'audience of a wrong type' }),
    'RST303',
    "The JWT 'aud' claim must be a string or an array of strings",
    null,
  ],
  [claims({ kind: 'other audience' }), 'RST303', 'JWT not in audience', null],
  [claims({ kind: 'no role name' }), 'RST303', 'The role in the JWT is not the name of a role', null],
]

test.each(refusals)('%j is 401 %s: %s', (refusal, code, message, details) => {
  expect({ ...restErrorOf(new AuthenticationError(refusal), false) }).toMatchObject({
    status: 401,
    code,
    details,
    hint: null,
    headers: [['WWW-Authenticate', `Bearer error="invalid_token", error_description="${message}"`]],
  })
  expect(restErrorOf(new AuthenticationError(refusal), false).message).toBe(message)
})

test("without a secret, the fault is the server's, and the response has no challenge", () => {
  const error = restErrorOf(new AuthenticationError({ kind: 'no secret' }), false)
  expect(error).toMatchObject({ status: 500, code: 'RST300', details: null, hint: null, headers: [] })
  expect(error.message).toBe('Server lacks JWT secret')
})

test('a request without a token gets a challenge', () => {
  const error = anonymousRefused()
  expect(error).toMatchObject({ status: 401, code: 'RST302', details: null, headers: [['WWW-Authenticate', 'Bearer']] })
  expect(error.message).toBe('Anonymous access is disabled')
})
