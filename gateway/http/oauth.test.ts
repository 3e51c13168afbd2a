/**
 * MCP clients that use a bridge with OAuth through the gateway: by the database's host name, and by its id in the path.
 */
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Fetch, httpsFetch } from '../../e2e/https-fetch.ts'
import { hashPassword } from '../../services/authentication/password.ts'
import { startTestBridge, type TestBridge } from '../../services/mcp-bridge/testing/bridge.ts'
import { formHeaders, formOf, password, redirectUri } from '../../services/mcp-bridge/testing/oauth.ts'
import { ca, databaseId, openHttps, shopHost, type TestHttps } from '../testing/https.ts'

const information = { name: 'test', version: '1' }
const fixture = fileURLToPath(new URL('../../services/mcp/testing/fixture-stdio.ts', import.meta.url))
let password_hash = ''
beforeAll(async () => {
  password_hash = await hashPassword(password)
})

type SavedState = { found?: unknown; client?: unknown; tokens?: unknown; verifier?: string; back?: URL }

/** The OAuth state of a client. A script fills in the form of the page, as a user would. */
function provider(fetching: Fetch) {
  const saved: SavedState = {}
  return {
    saved,
    redirectUrl: redirectUri,
    clientMetadata: { redirect_uris: [redirectUri], token_endpoint_auth_method: 'none', scope: 'mcp:read mcp:write' },
    state: () => 'a state',
    clientInformation: () => saved.client,
    saveClientInformation: (client: unknown) => {
      saved.client = client
    },
    tokens: () => saved.tokens,
    saveTokens: (tokens: unknown) => {
      saved.tokens = tokens
    },
    saveCodeVerifier: (verifier: string) => {
      saved.verifier = verifier
    },
    codeVerifier: () => saved.verifier ?? '',
    saveDiscoveryState: (found: unknown) => {
      saved.found = found
    },
    discoveryState: () => saved.found,
    async redirectToAuthorization(url: URL) {
      const page = await fetching(url)
      const text = await page.text()
      const [, csrf = ''] = /name="csrf_token" value="([^"]+)"/.exec(text) ?? []
      const [, action = ''] = /<form[^>]* action="([^"]+)"/.exec(text) ?? []
      const cookie = page.headers.getSetCookie().map(each => each.split(';')[0])
      const sent = await fetching(new URL(action, url), {
        method: 'POST',
        headers: { ...formHeaders, cookie: cookie.join('; '), origin: url.origin },
        body: formOf({ csrf_token: csrf, username: 'alice', password, decision: 'allow' }),
      })
      saved.back = new URL(sent.headers.get('location') ?? 'none:')
    },
  }
}

describe.each(['host name', 'id in the path'])("a client that uses the database's %s", way => {
  let it: TestHttps
  let bridge: TestBridge
  let base: string
  let fetching: Fetch
  beforeEach(async () => {
    it = await openHttps()
    base = way === 'host name' ? `https://${shopHost}:${it.port}` : `https://${it.host}:${it.port}/${databaseId}`
    bridge = await startTestBridge({
      mcp_server: { args: [fixture] },
      server: { public_url: base, auth: { type: 'oauth' }, trusted_proxies: ['127.0.0.0/8'] },
      oauth_server: { allow_dynamic_registration: true, builtin: { users: [{ username: 'alice', password_hash }] } },
    })
    it.addresses.set('mcp 81', [{ host: '127.0.0.1', port: bridge.port }])
    fetching = httpsFetch({ authority: ca, address: it.host })
    return async () => {
      await bridge.stop()
      await it.close()
    }
  })

  test("the discovery URLs of the 401 response exist, and use the client's address", async () => {
    const refused = await fetching(`${base}/mcp`, { method: 'POST', body: '{}' })
    const [, named = ''] = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '') ?? []
    const { origin, pathname } = new URL(`${base}/mcp`)
    expect(named).toBe(`${origin}/.well-known/oauth-protected-resource${pathname}`)
    const resource = await (await fetching(named)).json()
    expect(resource).toMatchObject({ resource: `${base}/mcp`, authorization_servers: [base] })
    const own = new URL(base).pathname.replace(/\/$/, '')
    for (const path of [
      `/.well-known/oauth-authorization-server${own}`,
      `/.well-known/openid-configuration${own}`,
      `${own}/.well-known/openid-configuration`,
    ])
      expect(await (await fetching(`${origin}${path}`)).json(), path).toMatchObject({
        issuer: base,
        authorization_endpoint: `${base}/oauth/authorize`,
        registration_endpoint: `${base}/register`,
      })
  })

  test.each(['auto', 'legacy'] as const)(
    'the newer SDK registers, signs in and calls (%s)',
    async mode => {
      const login = provider(fetching)
      const make = () =>
        // biome-ignore lint/suspicious/noExplicitAny: the test only stores the client's values and returns them unchanged
        new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { authProvider: login as any, fetch: fetching })
      const client = () => new Client(information, { versionNegotiation: { mode } })
      const first = make()
      await expect(client().connect(first)).rejects.toThrow()
      await first.finishAuth(login.saved.back?.searchParams ?? new URLSearchParams())
      const connected = client()
      await connected.connect(make())
      onTestFinished(() => connected.close())
      const { content } = await connected.callTool({ name: 'test_simple_text' })
      expect(content).toMatchObject([{ type: 'text' }])
    },
    20_000,
  )

  test('the older SDK registers, signs in and calls', async () => {
    const login = provider(fetching)
    // biome-ignore lint/suspicious/noExplicitAny: see above
    const make = () => new OldTransport(new URL(`${base}/mcp`), { authProvider: login as any, fetch: fetching })
    const first = make()
    // biome-ignore lint/suspicious/noExplicitAny: with exactOptionalPropertyTypes, its transports do not match its own type
    await expect(new OldClient(information).connect(first as any)).rejects.toThrow()
    await first.finishAuth(login.saved.back?.searchParams.get('code') ?? '')
    const connected = new OldClient(information)
    // biome-ignore lint/suspicious/noExplicitAny: see above
    await connected.connect(make() as any)
    onTestFinished(() => connected.close())
    const { content } = await connected.callTool({ name: 'test_simple_text' })
    expect(content).toMatchObject([{ type: 'text' }])
  }, 60_000)
})
