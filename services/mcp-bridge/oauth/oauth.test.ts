/**
 * The authorization server in front of a tool server, for clients and users: from registration to a call. Also tests
 * refused requests.
 */
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { decodeJwt, decodeProtectedHeader, importJWK, SignJWT } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashPassword } from '../../authentication/password.ts'
import { startTestBridge, type TestBridge } from '../testing/bridge.ts'
import {
  cookieFrom,
  csrfFrom,
  formHeaders,
  formOf,
  locationOf,
  openPage,
  password,
  pkce,
  postForm,
  redeem,
  redirectUri,
  register,
  request,
  sendPage,
  signIn,
  tokensFor,
} from '../testing/oauth.ts'

const machineSecret = 'a-secret-of-a-machine'
let bridge: TestBridge
let passwordHash = ''
const oauth = () => ({
  allow_dynamic_registration: true,
  login_max_attempts: 40,
  builtin: {
    users: [
      { username: 'alice', password_hash: passwordHash },
      { username: 'reader', password_hash: passwordHash, scopes: ['mcp:read'] },
    ],
    branding: { heading: 'Tools & <more>', primary_color: '#336791' },
  },
  clients: [
    {
      client_id: 'machine',
      client_secret_sha256: createHash('sha256').update(machineSecret).digest('hex'),
      client_credentials_scopes: ['mcp:read'],
    },
  ],
})

beforeAll(async () => {
  passwordHash = await hashPassword(password)
  bridge = await startTestBridge({ server: { auth: { type: 'oauth' } }, oauth_server: oauth() })
})
afterAll(() => bridge.stop())

const call = (name: string, headers: Record<string, string> = {}, path = '/mcp') =>
  bridge.post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: {} } }, headers, path)
const bearer = (token = '') => ({ Authorization: `Bearer ${token}` })
const errorOf = ({ text }: { text: string }) => JSON.parse(text).error

describe('the metadata for clients', () => {
  test('a 401 names the metadata of the resource, which names the authorization server', async () => {
    const refused = await call('whoami')
    expect(refused.status).toBe(401)
    expect(refused.headers['www-authenticate']).toBe(
      `Bearer resource_metadata="${bridge.url}/.well-known/oauth-protected-resource/mcp", scope="mcp:read"`,
    )
    const { text, headers } = await bridge.send('/.well-known/oauth-protected-resource/mcp')
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(JSON.parse(text)).toEqual({
      resource: `${bridge.url}/mcp`,
      authorization_servers: [bridge.url],
      scopes_supported: ['mcp:read', 'mcp:write'],
      bearer_methods_supported: ['header'],
    })
    expect(JSON.parse((await bridge.send('/.well-known/oauth-protected-resource')).text).resource).toBe(bridge.url)
    expect((await call('whoami', bearer('x'), '/')).headers['www-authenticate']).toContain('error="invalid_token"')
  })

  test.each([
    '/.well-known/oauth-authorization-server',
    '/.well-known/openid-configuration',
    '/.well-known/oauth-authorization-server/mcp',
  ])('%s has the documented content', async path => {
    expect(JSON.parse((await bridge.send(path)).text)).toMatchObject({
      issuer: bridge.url,
      authorization_endpoint: `${bridge.url}/oauth/authorize`,
      token_endpoint: `${bridge.url}/oauth/token`,
      jwks_uri: `${bridge.url}/oauth/jwks`,
      registration_endpoint: `${bridge.url}/register`,
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
    })
  })

  test('the key set contains only public keys, and only the owner of the key file can read it', async () => {
    const { keys } = JSON.parse((await bridge.send('/oauth/jwks')).text)
    expect(keys).toHaveLength(1)
    expect(Object.keys(keys[0]).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use'])
    const path = join(bridge.folder, 'oauth-keys.json')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(JSON.parse(readFileSync(path, 'utf8')).keys[0].d).toBeTypeOf('string')
  })

  test('preflight requires no token', async () => {
    const headers = { Origin: 'https://anywhere.example.com', 'Access-Control-Request-Method': 'POST' }
    const answer = await bridge.send('/oauth/token', { method: 'OPTIONS', headers })
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([204, '*'])
  })
})

describe('from registration to a call', () => {
  test('a client gets a token for a user, and uses the token in a call', async () => {
    const { client_id = '' } = await register(bridge)
    const keys = pkce()
    const back = await signIn(bridge, client_id, keys, { resource: `${bridge.url}/mcp` })
    expect(`${back.origin}${back.pathname}`).toBe(redirectUri)
    expect([back.searchParams.get('state'), back.searchParams.get('iss')]).toEqual(['a state', bridge.url])
    const tokens = await redeem(bridge, client_id, keys, back.searchParams.get('code') ?? '')
    expect(tokens).toMatchObject({ token_type: 'Bearer', expires_in: 3_600, scope: 'mcp:read mcp:write' })
    const claims = decodeJwt(tokens.access_token ?? '')
    expect(claims).toMatchObject({ iss: bridge.url, sub: 'alice', aud: `${bridge.url}/mcp`, client_id })
    const answer = await call('whoami', bearer(tokens.access_token))
    const whoami = JSON.parse(JSON.parse(answer.text).result.content[0].text)
    expect(whoami.meta['espalier.dev/caller']).toMatchObject({
      kind: 'client',
      principal: 'user:alice',
      username: 'alice',
      scopes: ['mcp:read', 'mcp:write'],
    })
    expect(answer.text).not.toContain(tokens.access_token)
  })

  test('a confidential client needs its secret', async () => {
    const { client_id = '', client_secret = '' } = await register(bridge, {
      token_endpoint_auth_method: 'client_secret_post',
    })
    const keys = pkce()
    const back = await signIn(bridge, client_id, keys)
    const fields = {
      grant_type: 'authorization_code',
      code: back.searchParams.get('code') ?? '',
      redirect_uri: redirectUri,
      client_id,
      code_verifier: keys.verifier,
    }
    const refused = await postForm(bridge, '/oauth/token', { ...fields, client_secret: 'wrong' })
    expect([refused.status, errorOf(refused)]).toEqual([400, 'invalid_client'])
    expect(errorOf(await postForm(bridge, '/oauth/token', fields))).toBe('invalid_client')
    expect((await postForm(bridge, '/oauth/token', { ...fields, client_secret })).status).toBe(200)
  })

  test('a client can get a token for itself', async () => {
    const fields = { grant_type: 'client_credentials', client_id: 'machine', client_secret: machineSecret }
    const { access_token, refresh_token, scope } = JSON.parse((await postForm(bridge, '/oauth/token', fields)).text)
    expect([scope, refresh_token]).toEqual(['mcp:read', undefined])
    expect((await call('whoami', bearer(access_token))).status).toBe(200)
    const { client_id = '' } = await register(bridge)
    expect(errorOf(await postForm(bridge, '/oauth/token', { grant_type: 'client_credentials', client_id }))).toBe(
      'unauthorized_client',
    )
  })

  test('a token with too few scopes causes a 403 with the missing scopes that the tool server reports', async () => {
    const { client_id = '' } = await register(bridge)
    const { access_token } = await tokensFor(bridge, client_id, {}, 'reader')
    const refused = await call('forbidden', bearer(access_token))
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([
      403,
      `Bearer error="insufficient_scope", scope="mcp:write", resource_metadata="${bridge.url}/.well-known/oauth-protected-resource/mcp"`,
    ])
  })
})

test('accepts configured tokens as well as tokens of the authorization server', async () => {
  const token = 'configured-token-of-a-machine'
  const auth = { type: 'oauth', bearer: { valid_tokens: [token] } }
  const both = await startTestBridge({ server: { auth }, oauth_server: oauth() })
  try {
    const listTools = (sent: string) => both.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, bearer(sent), '/mcp')
    expect((await listTools(token)).status).not.toBe(401)
    expect((await listTools('another-token-of-a-machine')).status).toBe(401)
    const { client_id = '' } = await register(both)
    expect((await listTools((await tokensFor(both, client_id)).access_token ?? '')).status).not.toBe(401)
  } finally {
    await both.stop()
  }
})

describe('tokens', () => {
  const refresh = (client_id: string, refresh_token = '', more = {}) =>
    postForm(bridge, '/oauth/token', { grant_type: 'refresh_token', refresh_token, client_id, ...more })

  test('a refresh token is valid once; reuse revokes all tokens of its grant', async () => {
    const { client_id = '' } = await register(bridge)
    const first = await tokensFor(bridge, client_id)
    const second = JSON.parse((await refresh(client_id, first.refresh_token)).text)
    expect((await call('whoami', bearer(second.access_token))).status).toBe(200)
    expect(errorOf(await refresh(client_id, first.refresh_token))).toBe('invalid_grant')
    expect(errorOf(await refresh(client_id, second.refresh_token))).toBe('invalid_grant')
    expect((await call('whoami', bearer(second.access_token))).status).toBe(401)
    expect((await call('whoami', bearer(first.access_token))).status).toBe(401)
  })

  test('another client can neither use a refresh token nor revoke its grant', async () => {
    const { client_id = '' } = await register(bridge)
    const { client_id: other = '' } = await register(bridge)
    const tokens = await tokensFor(bridge, client_id)
    expect(errorOf(await refresh(other, tokens.refresh_token))).toBe('invalid_grant')
    const less = await refresh(client_id, tokens.refresh_token, { scope: 'mcp:read' })
    expect(JSON.parse(less.text).scope).toBe('mcp:read')
  })

  test('a code is valid once; reuse revokes its tokens', async () => {
    const { client_id = '' } = await register(bridge)
    const keys = pkce()
    const code = (await signIn(bridge, client_id, keys)).searchParams.get('code') ?? ''
    const tokens = await redeem(bridge, client_id, keys, code)
    expect((await call('whoami', bearer(tokens.access_token))).status).toBe(200)
    expect(await redeem(bridge, client_id, keys, code)).toMatchObject({ error: 'invalid_grant' })
    expect((await call('whoami', bearer(tokens.access_token))).status).toBe(401)
    expect(errorOf(await refresh(client_id, tokens.refresh_token))).toBe('invalid_grant')
  })

  test.each([
    ['verifier', { code_verifier: 'x'.repeat(43) }],
    ['address', { redirect_uri: 'http://127.0.0.1:9/other' }],
    ['resource', { resource: 'https://other.example.com' }],
  ])('a code is valid for only one %s', async (_, wrong) => {
    const { client_id = '' } = await register(bridge)
    const keys = pkce()
    const code = (await signIn(bridge, client_id, keys)).searchParams.get('code') ?? ''
    const right = {
      grant_type: 'authorization_code',
      code,
      redirect_uri: redirectUri,
      client_id,
      code_verifier: keys.verifier,
    }
    const refused = await postForm(bridge, '/oauth/token', { ...right, ...wrong })
    expect(refused.status).toBe(400)
    expect(errorOf(refused)).toMatch(/^invalid_(grant|target)$/)
  })

  test('refuses with the same error a token of another key, for another audience, or without a signature', async () => {
    const { client_id = '' } = await register(bridge)
    const { access_token = '' } = await tokensFor(bridge, client_id)
    const { kid } = decodeProtectedHeader(access_token)
    const claims = decodeJwt(access_token)
    const forged = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid: kid ?? '' })
      .sign(Buffer.alloc(32))
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const unsigned = `${part({ alg: 'none', typ: 'at+jwt' })}.${part(claims)}.`
    const [head, , signature] = access_token.split('.')
    const changed = [head, part({ ...claims, scope: 'mcp:write', sub: 'root' }), signature].join('.')
    const answers = await Promise.all(
      [forged, unsigned, changed, 'x', 'a.b.c'].map(token => call('whoami', bearer(token))),
    )
    expect(answers.map(({ status, text }) => [status, text])).toEqual(answers.map(() => [401, answers[0]?.text]))
  })
})

test('refuses a token of the right key if any claim is wrong', async () => {
  const { client_id = '' } = await register(bridge)
  const { access_token = '' } = await tokensFor(bridge, client_id)
  const claims = decodeJwt(access_token)
  const [jwk] = JSON.parse(readFileSync(join(bridge.folder, 'oauth-keys.json'), 'utf8')).keys
  const key = await importJWK(jwk, 'RS256')
  const sign = (changed: object, typ = 'at+jwt') =>
    new SignJWT({ ...claims, ...changed }).setProtectedHeader({ alg: 'RS256', typ, kid: jwk.kid }).sign(key)
  const statusOf = async (token: string) => (await call('whoami', bearer(token))).status
  expect(await statusOf(await sign({}))).toBe(200)
  const past = Math.floor(Date.now() / 1_000) - 10
  const wrong = [
    { aud: 'https://other.example.com' },
    { iss: 'https://other.example.com' },
    { exp: past },
    { nbf: past + 1_000 },
    { sid: 'none' },
  ]
  for (const changed of wrong) expect([changed, await statusOf(await sign(changed))]).toEqual([changed, 401])
  expect(await statusOf(await sign({}, 'JWT'))).toBe(401)
})

describe('the page', () => {
  test('shows client and scopes escaped, without a script, and not in a frame', async () => {
    const { client_id = '' } = await register(bridge)
    const page = await openPage(bridge, request(client_id, pkce()))
    expect(page.status).toBe(200)
    expect(page.text).toContain('A &lt;b&gt;client&lt;/b&gt;')
    expect(page.text).toContain('Tools &amp; &lt;more&gt;')
    expect(page.text).toContain('127.0.0.1:9')
    expect(page.text).not.toMatch(/<script|<b>client/)
    const style = /<style>([\s\S]*?)<\/style>/.exec(page.text)?.[1] ?? ''
    const hash = createHash('sha256').update(style).digest('base64')
    expect(page.headers['content-security-policy']).toBe(
      `default-src 'none'; style-src 'sha256-${hash}'; form-action 'self' http://127.0.0.1:9; frame-ancestors 'none'; base-uri 'none'`,
    )
    expect(page.headers).toMatchObject({ 'x-frame-options': 'DENY', 'cache-control': 'no-store' })
    expect(page.headers['set-cookie']?.[0]).toMatch(/HttpOnly; SameSite=Lax/)
  })

  test('shows the same error for a wrong password and an unknown user, and remains valid', async () => {
    const { client_id = '' } = await register(bridge)
    const page = await openPage(bridge, request(client_id, pkce()))
    const wrong = await sendPage(bridge, page, { username: 'alice', password: 'wrong' })
    const unknown = await sendPage(bridge, page, { username: 'nobody', password: 'wrong' })
    expect([wrong.status, unknown.status]).toEqual([403, 403])
    expect(wrong.text.replaceAll('alice', 'nobody')).toBe(unknown.text)
    expect((await sendPage(bridge, page, { username: 'alice', password })).status).toBe(303)
    expect((await sendPage(bridge, page, { username: 'alice', password })).status).toBe(403)
  })

  test('is not valid in another browser or from another site', async () => {
    const { client_id = '' } = await register(bridge)
    const page = await openPage(bridge, request(client_id, pkce()))
    const body = formOf({ csrf_token: csrfFrom(page), username: 'alice', password })
    const post = (headers: Record<string, string>) =>
      bridge.send('/oauth/authorize', { method: 'POST', headers: { ...formHeaders, ...headers }, body })
    expect((await post({})).status).toBe(403)
    expect((await post({ Cookie: 'espalier_oauth=other' })).status).toBe(403)
    expect((await post({ Cookie: cookieFrom(page), Origin: 'https://evil.example.com' })).status).toBe(403)
    expect((await post({ Cookie: cookieFrom(page) })).status).toBe(303)
  })

  test('redirects a user who denies access, with access_denied', async () => {
    const { client_id = '' } = await register(bridge)
    const page = await openPage(bridge, request(client_id, pkce()))
    const back = locationOf(await sendPage(bridge, page, { decision: 'deny' }))
    expect(Object.fromEntries(back.searchParams)).toMatchObject({
      error: 'access_denied',
      state: 'a state',
      iss: bridge.url,
    })
  })

  test('does not redirect to an address that the client has not registered', async () => {
    const { client_id = '' } = await register(bridge)
    for (const wrong of [
      `${redirectUri}/`,
      'https://evil.example.com/callback',
      'http://127.0.0.1.evil.example.com:9/callback',
      'javascript:alert(1)',
    ]) {
      const page = await openPage(bridge, { ...request(client_id, pkce()), redirect_uri: wrong })
      expect([page.status, page.headers.location]).toEqual([400, undefined])
    }
    const unknown = await openPage(bridge, request('nobody', pkce()))
    expect([unknown.status, unknown.headers.location]).toEqual([400, undefined])
    // A native client has an arbitrary port.
    const native = await openPage(bridge, {
      ...request(client_id, pkce()),
      redirect_uri: 'http://127.0.0.1:40123/callback',
    })
    expect(native.status).toBe(200)
  })

  test.each([
    ['response_type', 'token', 'unsupported_response_type'],
    ['code_challenge', '', 'invalid_request'],
    ['code_challenge_method', 'plain', 'invalid_request'],
    ['scope', 'everything', 'invalid_scope'],
    ['resource', 'https://other.example.com', 'invalid_target'],
  ])('reports a wrong %s to the client', async (name, value, error) => {
    const { client_id = '' } = await register(bridge)
    const back = locationOf(await openPage(bridge, { ...request(client_id, pkce()), [name]: value }))
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error, state: 'a state', iss: bridge.url })
  })
})

describe('registration', () => {
  test.each([
    ['no redirect URI', { redirect_uris: [] }, 'invalid_redirect_uri'],
    ['plain http', { redirect_uris: ['http://example.com/'] }, 'invalid_redirect_uri'],
    ['a fragment', { redirect_uris: ['https://example.com/#a'] }, 'invalid_redirect_uri'],
    ['an https redirect URI that is not listed', { redirect_uris: ['https://evil.example/'] }, 'invalid_redirect_uri'],
    ['a private scheme that is not listed', { redirect_uris: ['evil://callback'] }, 'invalid_redirect_uri'],
    ['a javascript URI', { redirect_uris: ['javascript:alert(1)'] }, 'invalid_redirect_uri'],
    ['an unknown method', { token_endpoint_auth_method: 'private_key_jwt' }, 'invalid_client_metadata'],
  ])('with %s is refused', async (_, fields, error) => {
    expect(await register(bridge, fields)).toMatchObject({ error })
  })

  test('has no endpoint if it is not enabled', async () => {
    const closed = await startTestBridge({ server: { auth: { type: 'oauth' } }, oauth_server: {} })
    const answer = await closed.send('/register', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    })
    const { registration_endpoint } = JSON.parse((await closed.send('/.well-known/oauth-authorization-server')).text)
    await closed.stop()
    expect([answer.status, registration_endpoint]).toEqual([404, undefined])
  })
})

test('after too many wrong passwords, the right password is refused too', async () => {
  const limited = await startTestBridge({
    server: { auth: { type: 'oauth' } },
    oauth_server: { ...oauth(), login_max_attempts: 3 },
  })
  const { client_id = '' } = await register(limited)
  const page = await openPage(limited, request(client_id, pkce()))
  for (let n = 0; n < 3; n += 1)
    expect((await sendPage(limited, page, { username: 'alice', password: `${n}` })).status).toBe(403)
  expect((await sendPage(limited, page, { username: 'alice', password })).status).toBe(429)
  await limited.stop()
})

test('clients, tokens and keys survive a restart; a deleted user loses access', async () => {
  const parts = { server: { auth: { type: 'oauth' } }, oauth_server: oauth() }
  const first = await startTestBridge(parts)
  const { client_id = '' } = await register(first)
  const tokens = await tokensFor(first, client_id)
  const readerTokens = await tokensFor(first, client_id, {}, 'reader')
  const { folder, port } = first
  const refresh = (on: TestBridge, refresh_token = '') =>
    postForm(on, '/oauth/token', { grant_type: 'refresh_token', refresh_token, client_id })
  const { keys } = JSON.parse((await first.send('/oauth/jwks')).text)
  // The folder of the first bridge is deleted with that bridge.
  const copied = mkdtempSync(join(tmpdir(), 'espalier-bridge-'))
  cpSync(folder, copied, { recursive: true })
  const users = oauth().builtin.users.slice(0, 1)
  await first.stop()
  const second = await startTestBridge({
    ...parts,
    oauth_server: { ...oauth(), builtin: { users } },
    folder: copied,
    port,
  })
  expect(JSON.parse((await second.send('/oauth/jwks')).text).keys).toEqual(keys)
  expect((await second.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, bearer(tokens.access_token))).status).toBe(200)
  expect((await refresh(second, tokens.refresh_token)).status).toBe(200)
  expect(errorOf(await refresh(second, readerTokens.refresh_token))).toBe('invalid_grant')
  await second.stop()
  rmSync(copied, { recursive: true })
})

test('no input crashes the authorization server', async () => {
  const paths = fc.constantFrom('/oauth/authorize', '/oauth/token', '/register', '/oauth/callback', '/oauth/jwks')
  const name = fc.constantFrom(
    'client_id',
    'redirect_uri',
    'grant_type',
    'code',
    'refresh_token',
    'csrf_token',
    'username',
    'state',
    'scope',
    'resource',
  )
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('authorization_code', 'refresh_token', 'https://a/b', 'machine', '%', '\0'),
  )
  const fields = fc.array(fc.tuple(name, text), { maxLength: 8 })
  const type = fc.constantFrom('application/x-www-form-urlencoded', 'application/json')
  await fc.assert(
    fc.asyncProperty(paths, fields, type, fc.boolean(), async (path, list, contentType, isPost) => {
      const query = new URLSearchParams(list).toString()
      const answer = isPost
        ? await bridge.send(path, { method: 'POST', headers: { 'Content-Type': contentType }, body: query })
        : await bridge.send(`${path}?${query}`)
      expect(answer.status).toBeLessThan(500)
    }),
    { numRuns: 150 },
  )
})
