/** What an identity provider may say and is not believed: one that answers whatever the test wants. */
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
    } else if (request.url === '/jwks') send({ keys: [jwk] })
    else send({ id_token: await new SignJWT(claims).setProtectedHeader({ alg: 'RS256' }).sign(signed) })
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

function identify({ claims: changed, signedBy, answerIssuer, discovery = {} }: Said) {
  claims = { ...good(), ...changed }
  signed = signedBy === 'other' ? otherKey : key
  discovered = discovery
  const provider = new Provider({
    upstreamIssuer: issuer,
    clientId: 'bridge',
    clientSecret: undefined,
    scopes: ['openid', 'email'],
    allowedDomains: ['example.com'],
    defaultScopes: ['mcp:read'],
  })
  return provider.identify('code', answerIssuer, asked)
}

test('who is known is known by the subject, and called by the verified address', async () => {
  const expected = { subject: 'ann', username: 'ann@example.com', scopes: ['mcp:read'] }
  expect(await identify({})).toEqual(expected)
  expect(await identify({ claims: { aud: ['bridge', 'other'], azp: 'bridge' } })).toEqual(expected)
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
