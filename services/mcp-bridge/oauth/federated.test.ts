/** Login at a real external provider (`oidc-provider`), with its pages, cookies and keys. */
import { createServer, type Server } from 'node:http'
import { type Configuration, Provider } from 'oidc-provider'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sendRequest } from '../../testing/client.ts'
import { freePort } from '../../testing/postgres.ts'
import { startTestBridge, type TestBridge } from '../testing/bridge.ts'
import {
  cookieFrom,
  locationOf,
  openPage,
  type Pkce,
  pkce,
  redeem,
  redirectUri,
  register,
  request,
  sendPage,
} from '../testing/oauth.ts'

/** Email addresses by login name. */
const emails: Readonly<Record<string, { email: string; email_verified: boolean }>> = {
  ann: { email: 'ann@example.com', email_verified: true },
  eve: { email: 'eve@elsewhere.com', email_verified: true },
  bob: { email: 'bob@example.com', email_verified: false },
}

let provider: Server
let issuer = ''
let bridge: TestBridge
const logged: string[] = []
beforeAll(async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  vi.spyOn(console, 'info').mockImplementation(() => {})
  const [port, bridgePort] = [await freePort(), await freePort()]
  issuer = `http://127.0.0.1:${port}`
  const configuration: Configuration = {
    clients: [
      {
        client_id: 'bridge',
        client_secret: 'a-secret-of-the-bridge',
        redirect_uris: [`http://127.0.0.1:${bridgePort}/oauth/callback`],
        token_endpoint_auth_method: 'client_secret_post',
        application_type: 'native',
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId, ...emails[accountId] }) }),
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
  }
  provider = createServer(new Provider(issuer, configuration).callback())
  await new Promise<void>(resolve => provider.listen(port, '127.0.0.1', resolve))
  bridge = await startTestBridge({
    port: bridgePort,
    logger: pino({ base: null, timestamp: false }, { write: line => logged.push(line) }),
    server: { auth: { type: 'oauth' } },
    oauth_server: {
      mode: 'federated',
      allow_dynamic_registration: true,
      federated: {
        upstream_issuer: issuer,
        client_id: 'bridge',
        client_secret: 'a-secret-of-the-bridge',
        allowed_domains: ['example.com'],
        default_scopes: ['mcp:read'],
      },
    },
  })
})
afterAll(async () => {
  await bridge.stop()
  await new Promise(resolve => provider.close(resolve))
  vi.restoreAllMocks()
})

/** Signs in at the provider and consents. Returns the URL to which the provider redirects the browser. */
async function atProvider(start: URL, login: string): Promise<URL> {
  const cookies = new Map<string, string>()
  const port = Number(start.port)
  let url = start
  let form: string | undefined
  for (let steps = 0; steps < 12; steps += 1) {
    const Cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers: Record<string, string> = {
      Cookie,
      ...(form !== undefined && { 'Content-Type': 'application/x-www-form-urlencoded' }),
    }
    const answer = await sendRequest(port, `${url.pathname}${url.search}`, {
      headers,
      ...(form !== undefined && { method: 'POST', body: form }),
    })
    for (const one of answer.headers['set-cookie'] ?? []) {
      const [name = '', value = ''] = (one.split(';')[0] ?? '').split('=')
      cookies.set(name, value)
    }
    form = undefined
    if (answer.headers.location !== undefined) {
      url = new URL(answer.headers.location, url)
      if (url.pathname === '/oauth/callback') return url
      continue
    }
    const prompt = /name="prompt" value="(\w+)"/.exec(answer.text)?.[1]
    if (prompt === undefined)
      throw new Error(`the provider shows something else: ${answer.status} ${answer.text.slice(0, 500)}`)
    form = new URLSearchParams({ prompt, login, password: 'any' }).toString()
  }
  throw new Error('the provider goes round in circles')
}

type Begun = { readonly clientId: string; readonly keys: Pkce; readonly cookie: string; readonly start: URL }

/** Follows redirects to the provider's first page. */
async function begin(): Promise<Begun> {
  const { client_id: clientId = '' } = await register(bridge)
  const keys = pkce()
  const page = await openPage(bridge, request(clientId, keys))
  expect(page.text).not.toContain('type="password"')
  const sent = await sendPage(bridge, page, { decision: 'allow' })
  return { clientId, keys, cookie: cookieFrom(page), start: locationOf(sent) }
}

async function signInAs(login: string) {
  const begun = await begin()
  const callback = await atProvider(begun.start, login)
  const path = `${callback.pathname}${callback.search}`
  return { ...begun, path, back: await bridge.send(path, { headers: { Cookie: begun.cookie } }) }
}

test('a user of the provider gets a token of the bridge', async () => {
  const { clientId, keys, cookie, start, path, back } = await signInAs('ann')
  expect(`${start.origin}${start.pathname}`).toBe(`${issuer}/auth`)
  expect(start.searchParams.get('code_challenge_method')).toBe('S256')
  const location = locationOf(back)
  expect(`${location.origin}${location.pathname}`).toBe(redirectUri)
  expect([location.searchParams.get('state'), location.searchParams.get('iss')]).toEqual(['a state', bridge.url])
  const tokens = await redeem(bridge, clientId, keys, location.searchParams.get('code') ?? '')
  expect(tokens.scope).toBe('mcp:read')
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {} } }
  const { text } = await bridge.post(call, { Authorization: `Bearer ${tokens.access_token}` })
  expect(text).toContain('ann@example.com')
  // The callback is valid once.
  expect((await bridge.send(path, { headers: { Cookie: cookie } })).status).toBe(403)
  // The second login for this client in this browser needs no consent.
  const again = await openPage(bridge, request(clientId, keys), cookie)
  expect([again.status, locationOf(again).origin]).toEqual([303, issuer])
})

test.each([
  ['eve', 'with another domain'],
  ['bob', 'whose address is not verified'],
])('redirects %s, %s, back to the client without a code', async login => {
  const { back } = await signInAs(login)
  expect(Object.fromEntries(locationOf(back).searchParams)).toMatchObject({ error: 'access_denied', state: 'a state' })
})

test('refuses a login that was started in another browser', async () => {
  const begun = await begin()
  const callback = await atProvider(begun.start, 'ann')
  const path = `${callback.pathname}${callback.search}`
  expect((await bridge.send(path)).status).toBe(403)
  expect((await bridge.send(path, { headers: { Cookie: 'espalier_oauth=stolen' } })).status).toBe(403)
  expect((await bridge.send('/oauth/callback?code=x&state=y', { headers: { Cookie: begun.cookie } })).status).toBe(403)
})

test('reports errors of the provider, and an unknown code, to the client', async () => {
  for (const query of [
    'error=access_denied',
    'code=invented',
    `code=invented&iss=${encodeURIComponent('https://evil.example.com')}`,
  ]) {
    const begun = await begin()
    const state = begun.start.searchParams.get('state')
    const back = await bridge.send(`/oauth/callback?${query}&state=${state}`, { headers: { Cookie: begun.cookie } })
    expect(locationOf(back).searchParams.get('error')).toMatch(/access_denied|server_error/)
  }
})

test('the log has the reason of a failed login, but neither code nor secret', async () => {
  const begun = await begin()
  const state = begun.start.searchParams.get('state')
  logged.length = 0
  const query = `code=invented&iss=${encodeURIComponent(issuer)}&state=${state}`
  await bridge.send(`/oauth/callback?${query}`, { headers: { Cookie: begun.cookie } })
  expect(logged.map(line => JSON.parse(line))).toEqual([
    {
      level: 40,
      msg: 'a login at the identity provider failed',
      problem: 'the identity provider did not answer correctly',
      code: 'invalid_grant',
      reason: 'server responded with an error in the response body',
    },
  ])
})
