/** What an identity provider may say and is not believed: one that answers whatever the test wants. */
import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Provider } from './federated.ts'

let server: Server
let issuer = ''
/** A path that is answered without end. */
let endless = ''
let sent = 0
let keysRead = 0
let jwk: JWK
let key: CryptoKey
let otherKey: CryptoKey
let claims: Record<string, unknown> = {}
let signed: CryptoKey
let discovered: Record<string, unknown> = {}
beforeAll(async () => {
  const pair = await generateKeyPair('RS256')
  key = pair.privateKey
  jwk = { ...(await exportJWK(pair.publicKey)), alg: 'RS256' }
  otherKey = (await generateKeyPair('RS256')).privateKey
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
      send({ issuer, ...endpoints, ...discovered })
    } else if (request.url === '/jwks') {
      keysRead += 1
      send({ keys: [jwk] })
    } else {
      const id_token = await new SignJWT(claims).setProtectedHeader({ alg: 'RS256' }).sign(signed)
      send({ access_token: 'a', token_type: 'bearer', id_token })
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // of a TCP server it is one
})
afterAll(() => {
  server.closeAllConnections()
  return new Promise(resolve => server.close(resolve))
})

const now = Math.floor(Date.now() / 1_000)
const asked = { redirectUri: 'http://127.0.0.1:9/oauth/callback', nonce: 'the nonce', verifier: 'v' }
const email = { email: 'ann@example.com', email_verified: true }
const good = () => ({ iss: issuer, aud: 'bridge', sub: 'ann', nonce: 'the nonce', iat: now, exp: now + 60, ...email })

type Said = { claims?: object; signedBy?: 'other'; answerIssuer?: string; discovery?: Record<string, unknown> }

const newProvider = () =>
  new Provider({
    upstreamIssuer: issuer,
    clientId: 'bridge',
    clientSecret: undefined,
    scopes: ['openid', 'email'],
    allowedDomains: ['example.com'],
    defaultScopes: ['mcp:read'],
  })

function identify({ claims: changed, signedBy, answerIssuer, discovery = {} }: Said, provider = newProvider()) {
  claims = { ...good(), ...changed }
  signed = signedBy === 'other' ? otherKey : key
  discovered = discovery
  return provider.identify('code', answerIssuer, asked)
}

test('who is known is known by the subject, and called by the verified address', async () => {
  const expected = { subject: 'ann', username: 'ann@example.com', scopes: ['mcp:read'] }
  expect(await identify({})).toEqual(expected)
  expect(await identify({ claims: { aud: ['bridge', 'other'], azp: 'bridge' } })).toEqual(expected)
})

test('keys are read once for several logins, and clocks may differ by some seconds', async () => {
  const provider = newProvider()
  keysRead = 0
  await identify({}, provider)
  await identify({ claims: { exp: now - 10, iat: now + 10 } }, provider)
  expect(keysRead).toBe(1)
})

test('a login carries the challenge of its verifier', async () => {
  const url = new URL(await newProvider().loginUrl({ ...asked, state: 'the state' }))
  expect(Object.fromEntries(url.searchParams)).toEqual({
    response_type: 'code',
    client_id: 'bridge',
    redirect_uri: asked.redirectUri,
    scope: 'openid email',
    state: 'the state',
    nonce: 'the nonce',
    code_challenge: createHash('sha256').update('v').digest('base64url'),
    code_challenge_method: 'S256',
  })
})

test.each<[string, Said]>([
  ['the nonce of another login', { claims: { nonce: 'another' } }],
  ['no nonce', { claims: { nonce: undefined } }],
  ['another audience', { claims: { aud: 'other' } }],
  ['another party', { claims: { azp: 'other' } }],
  ['another issuer', { claims: { iss: 'https://other.example.com' } }],
  ['what has expired', { claims: { exp: now - 3_600 } }],
  ['another key', { signedBy: 'other' }],
  ['an address that is not verified', { claims: { email_verified: false } }],
  ['no address', { claims: { email: undefined } }],
  ['a domain that only begins alike', { claims: { email: 'ann@example.com.evil.com' } }],
  ['an answer of another provider', { answerIssuer: 'https://other.example.com' }],
  ['metadata of another issuer', { discovery: { issuer: 'https://other.example.com' } }],
  ['metadata with no address to ask', { discovery: { token_endpoint: 'file:///etc/passwd' } }],
])('%s is not believed', async (_, said) => {
  await expect(identify(said)).rejects.toMatchObject({ name: 'OAuthError' })
})

test.each(['configuration', 'token', 'jwks'])('an answer of %s without end is not read to its end', async path => {
  endless = path
  sent = 0
  try {
    await expect(identify({})).rejects.toMatchObject({ name: 'OAuthError' })
    expect(sent).toBeLessThan(32_000_000)
  } finally {
    endless = ''
  }
})
