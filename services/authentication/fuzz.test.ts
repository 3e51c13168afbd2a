import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AuthenticationError } from './errors.ts'
import type { Authentication } from './index.ts'
import { make, signAnything } from './testing/tokens.ts'

test('every header gives an Authentication or an AuthenticationError, and no unsigned token gives a role', async () => {
  const encoded = fc.oneof(
    fc.string().map(text => Buffer.from(text).toString('base64url')),
    fc.jsonValue().map(value => Buffer.from(JSON.stringify(value)).toString('base64url')),
    fc
      .record(
        { alg: fc.constantFrom('HS256', 'none', 'RS256', '', 'hs256', '__proto__'), kid: fc.jsonValue() },
        { requiredKeys: [] },
      )
      .map(value => Buffer.from(JSON.stringify(value)).toString('base64url')),
    fc.string(),
  )
  const header = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .tuple(fc.constantFrom('Bearer ', 'bearer\t', 'Bearer', 'BEARER  '), fc.array(encoded, { maxLength: 6 }))
      .map(([scheme, parts]) => scheme + parts.join('.')),
  )
  const authenticator = make()
  await fc.assert(
    fc.asyncProperty(header, async authorization => {
      let answer: Authentication | undefined
      try {
        answer = await authenticator.authenticate(authorization)
      } catch (error) {
        expect(error).toBeInstanceOf(AuthenticationError)
        expect(error).toMatchObject({ refusal: { kind: expect.stringMatching(/^(undecodable|claims)$/) } })
      }
      expect(answer?.role).toBeUndefined()
    }),
    { numRuns: 3000 },
  )
})

test('signed claims of any kind give an Authentication or an AuthenticationError, and are returned unchanged', async () => {
  const authenticator = make({ audience: 'ours', roleClaimKey: '.role' })
  const claim = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.integer(), fc.string())
  const claims = fc.record(
    { role: claim, exp: claim, nbf: claim, iat: claim, aud: claim, other: claim },
    { requiredKeys: [] },
  )
  await fc.assert(
    fc.asyncProperty(claims, async value => {
      const payload = JSON.stringify(value)
      const token = signAnything({ alg: 'HS256' }, payload)
      try {
        const answer = await authenticator.authenticate(`Bearer ${token}`)
        expect(JSON.stringify(answer.claims)).toBe(payload)
        expect(answer.authenticated).toBe(answer.role !== undefined)
      } catch (error) {
        expect(error).toBeInstanceOf(AuthenticationError)
        expect(error).toMatchObject({ refusal: { kind: 'claims' } })
      }
    }),
    { numRuns: 500 },
  )
})
