/** Provider responses that the bridge must not trust. The provider answers as each test requires. */
import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OAuthError } from './errors.ts'
import { loginFailure, Provider } from './federated.ts'

let server: Server
let issuer = ''
/** The path to which the provider sends an endless response. */
let endless = ''
let sent = 0
let keysRead = 0
let jwk: JWK
let key: CryptoKey
let otherKey: CryptoKey
let ellipticJwk: JWK
let ellipticKey: CryptoKey
let providerResponse: ProviderResponse = {}
let form = new URLSearchParams()
beforeAll(async () => {
  const pair = await generateKeyPair('RS256')
  key = pair.privateKey
  jwk = { ...(await exportJWK(pair.publicKey)), alg: 'RS256' }
  otherKey = (await generateKeyPair('RS256')).privateKey
  const elliptic = await generateKeyPair('ES256')
  ellipticKey = elliptic.privateKey
  ellipticJwk = { ...(await exportJWK(elliptic.publicKey)), alg: 'ES256' }
  server = createServer(async (request, response) => {
    if (endless !== '' && request.url?.includes(endless)) {
      response.setHeader('Content-Type', 'application/json')
      const piece = Buffer.alloc(65_536, ' ')
      const more = () => {
        while (!response.destroyed && response.write(piece)) sent += piece.length
      }
      response.on('drain', more)
      more()
      return
    }
    const send = (value: unknown) => response.setHeader('Content-Type', 'application/json').end(JSON.stringify(value))
    if (request.url === '/.well-known/openid-configuration') {
      const at = (path: string) => `${issuer}/${path}`
      const endpoints = { authorization_endpoint: at('auth'), token_endpoint: at('token'), jwks_uri: at('jwks') }
      send({ issuer, ...endpoints, ...providerResponse.discovery })
    } else if (request.url === '/jwks') {
      keysRead += 1
      send({ keys: [jwk, ellipticJwk] })
    } else if (request.url === '/userinfo') {
      send(providerResponse.userinfo)
    } else {
      form = new URLSearchParams(await text(request))
      const { status = 200, header, answer, signedBy } = providerResponse
      const signed = { other: otherKey, elliptic: ellipticKey, usual: key }[signedBy ?? 'usual']
      const alg = signedBy === 'elliptic' ? 'ES256' : 'RS256'
      const id_token = await new SignJWT({ ...good(), ...providerResponse.claims })
        .setProtectedHeader({ alg })
        .sign(signed)
      response.statusCode = status
      if (header !== undefined) response.setHeader('WWW-Authenticate', header)
      if (typeof answer === 'string') response.setHeader('Content-Type', 'application/json').end(answer)
      else send({ access_token: 'a', token_type: 'bearer', id_token, ...answer })
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP server has such an address
})
afterAll(() => {
  server.closeAllConnections()
  return new Promise(resolve => server.close(resolve))
})

const now = Math.floor(Date.now() / 1_000)
const redirectUri = 'http://127.0.0.1:9/oauth/callback'
const loginState = { nonce: 'the nonce', verifier: 'v' }
const email = { email: 'ann@example.com', email_verified: true }
const good = () => ({ iss: issuer, aud: 'bridge', sub: 'ann', nonce: 'the nonce', iat: now, exp: now + 60, ...email })

type ProviderResponse = {
  claims?: object
  signedBy?: 'other' | 'elliptic'
  answerIssuer?: string
  discovery?: Record<string, unknown>
  /** The response of the token endpoint. A string is the complete body. */
  answer?: object | string
  status?: number
  header?: string
  userinfo?: object
}

const newProvider = (redirect = redirectUri) =>
  new Provider(
    {
      upstreamIssuer: issuer,
      clientId: 'bridge',
      clientSecret: undefined,
      scopes: ['openid', 'email'],
      allowedDomains: ['example.com'],
      defaultScopes: ['mcp:read'],
    },
    redirect,
  )

function identify(next: ProviderResponse, provider = newProvider()) {
  providerResponse = next
  return provider.identify('code', next.answerIssuer, loginState)
}

test("uses the subject as the user's id, and the verified address as the name", async () => {
  const expected = { subject: 'ann', username: 'ann@example.com', scopes: ['mcp:read'] }
  expect(await identify({})).toEqual(expected)
  expect(await identify({ claims: { aud: ['bridge', 'other'], azp: 'bridge' } })).toEqual(expected)
  const discovery = { id_token_signing_alg_values_supported: ['ES256'] }
  expect(await identify({ signedBy: 'elliptic', discovery })).toEqual(expected)
})

test('reads keys once for several logins, and accepts clocks that differ by some seconds', async () => {
  const provider = newProvider()
  keysRead = 0
  await identify({}, provider)
  await identify({ claims: { exp: now - 10, iat: now + 10 } }, provider)
  expect(keysRead).toBe(1)
})

test('a login carries the challenge of its verifier', async () => {
  const url = new URL(await newProvider().loginUrl({ ...loginState, state: 'the state' }))
  expect(Object.fromEntries(url.searchParams)).toEqual({
    response_type: 'code',
    client_id: 'bridge',
    redirect_uri: redirectUri,
    scope: 'openid email',
    state: 'the state',
    nonce: 'the nonce',
    code_challenge: createHash('sha256').update('v').digest('base64url'),
    code_challenge_method: 'S256',
  })
})

test.each([
  'https://B.Example/oauth/callback',
  'https://b.example:443/oauth/callback',
  'https://b.example/ä/../oauth/callback',
])('the token request has the same redirect URI as the login: %s', async redirect => {
  const provider = newProvider(redirect)
  await identify({}, provider)
  const url = new URL(await provider.loginUrl({ ...loginState, state: 'the state' }))
  expect(form.getAll('redirect_uri')).toEqual([redirect])
  expect(url.searchParams.getAll('redirect_uri')).toEqual([redirect])
})

test.each<[string, ProviderResponse]>([
  ['the nonce of another login', { claims: { nonce: 'another' } }],
  ['no nonce', { claims: { nonce: undefined } }],
  ['another audience', { claims: { aud: 'other' } }],
  ['another authorized party', { claims: { azp: 'other' } }],
  ['another issuer', { claims: { iss: 'https://other.example.com' } }],
  ['an expired token', { claims: { exp: now - 3_600 } }],
  ['a signature by another key', { signedBy: 'other' }],
  ['an email address that is not verified', { claims: { email_verified: false } }],
  ['no email address', { claims: { email: undefined } }],
  ['a domain that only starts with an allowed domain', { claims: { email: 'ann@example.com.evil.com' } }],
  ['a response with another issuer', { answerIssuer: 'https://other.example.com' }],
  ['metadata of another issuer', { discovery: { issuer: 'https://other.example.com' } }],
  ['several audiences without an authorized party', { claims: { aud: ['bridge', 'other'] } }],
  ['an algorithm, if the metadata list none', { signedBy: 'elliptic' }],
  [
    'an algorithm that the metadata do not list',
    { signedBy: 'elliptic', discovery: { id_token_signing_alg_values_supported: ['RS256'] } },
  ],
  ['a token without a type', { answer: { token_type: undefined } }],
  ['a scope of null', { answer: { scope: null } }],
  ['a refresh token of null', { answer: { refresh_token: null } }],
  ['a token response with status 201', { status: 201 }],
  ['metadata with a token endpoint that is not HTTP', { discovery: { token_endpoint: 'file:///etc/passwd' } }],
])('refuses %s', async (_, next) => {
  await expect(identify(next)).rejects.toMatchObject({ name: 'OAuthError' })
})

test.each(['configuration', 'token', 'jwks'])('stops reading an endless response of %s', async path => {
  endless = path
  sent = 0
  try {
    await expect(identify({})).rejects.toMatchObject({ name: 'OAuthError' })
    expect(sent).toBeLessThan(32_000_000)
  } finally {
    endless = ''
  }
})

/** An invalid header value, which an error of `Headers` would quote. */
const brokenToken = { access_token: 'hidden\ntoken' }

test.each<[ProviderResponse, string | undefined, string]>([
  [{ status: 400, answer: { error: 'hidden', error_description: 'hidden' } }, 'OAUTH_RESPONSE_BODY_ERROR', 'server'],
  [{ status: 400, answer: { error: 'invalid_client', error_description: 'hidden' } }, 'invalid_client', 'server'],
  [{ status: 401, header: 'Bearer realm="hidden", error="hidden"' }, 'OAUTH_WWW_AUTHENTICATE_CHALLENGE', 'server'],
  [{ status: 500, answer: 'hidden' }, 'OAUTH_RESPONSE_IS_NOT_CONFORM', 'unexpected'],
  [{ answer: 'hidden' }, 'OAUTH_PARSE_ERROR', 'parsing'],
  [{ answer: { token_type: 'hidden' } }, 'OAUTH_UNSUPPORTED_OPERATION', 'unsupported'],
  [{ answer: { id_token: 'hidden.hidden.hidden' } }, 'OAUTH_PARSE_ERROR', 'parsing'],
  [{ claims: { nonce: 'hidden' } }, 'OAUTH_JWT_CLAIM_COMPARISON_FAILED', 'unexpected'],
  [{ discovery: { issuer: 'https://hidden.example.com' } }, 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED', 'issuer'],
  [{ discovery: { token_endpoint: 'http://127.0.0.1:2/hidden' } }, 'ECONNREFUSED', 'the connection failed'],
  [{ claims: { email: undefined }, answer: brokenToken }, undefined, 'TypeError'],
  [
    { claims: { email: undefined }, userinfo: { sub: 'hidden' } },
    'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED',
    'unexpected',
  ],
])('for the failure %j the log has the code %s', async (next, code, reason) => {
  const discovery = { userinfo_endpoint: `${issuer}/userinfo`, ...next.discovery }
  const error = await identify({ ...next, discovery }).catch((thrown: unknown) => thrown)
  if (!(error instanceof OAuthError)) throw error
  const failure = loginFailure(error)
  expect(failure).toMatchObject({ reason: expect.stringContaining(reason) })
  expect(failure.code).toBe(code)
  expect(JSON.stringify(failure)).not.toContain('hidden')
})
