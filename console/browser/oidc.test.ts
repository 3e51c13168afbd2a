/** Tests the login at a real OpenID provider (`oidc-provider`): authorization code with PKCE, renewal, revocation. */
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { canRun, openBrowser } from './chromium.ts'
import { type Installation, startInstallation } from './installation.ts'

const runs = canRun()
const audience = 'espalier'
const clientId = 'console'
const tokenSeconds = 3600

const configurationFor = (redirectUri: string) => ({
  clients: [
    {
      client_id: clientId,
      redirect_uris: [redirectUri],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
    },
  ],
  jwks: { keys: [generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })] },
  claims: { openid: ['sub'] },
  findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
  pkce: { required: () => true },
  clientBasedCORS: () => true,
  issueRefreshToken: () => true,
  extraTokenClaims: () => ({ tenant: 'acme' }),
  features: {
    devInteractions: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'https://espalier.test',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        ...{ scope: '', audience, accessTokenFormat: 'jwt', accessTokenTTL: tokenSeconds },
      }),
    },
  },
})

let server: Server
let installation: Installation
let browser: Browser
beforeAll(async () => {
  if (!runs) return
  for (const method of ['warn', 'info'] as const) vi.spyOn(console, method).mockImplementation(() => {})
  let handle: (request: IncomingMessage, response: ServerResponse) => unknown = () => {}
  server = createServer((request, response) => void handle(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  installation = await startInstallation({
    authentication: { jwksUrl: `${issuer}/jwks`, issuer, audience },
    login: { clientId, scope: 'openid' },
  })
  handle = new Provider(issuer, configurationFor(`${installation.address}/console/signed-in`)).callback()
  browser = await openBrowser()
})
afterAll(async () => {
  await browser?.close()
  await installation?.stop()
  server?.closeAllConnections()
  server?.close()
  vi.restoreAllMocks()
})

/** Opens the login window of the provider. */
async function openLogin(page: Page): Promise<Page> {
  const [popup] = await Promise.all([
    page.context().waitForEvent('page'),
    page.getByRole('button', { name: 'Log in with your provider' }).click(),
  ])
  await popup.waitForURL(/\/interaction\//)
  return popup
}

/** Signs in on the pages of the provider, and confirms the login. */
async function signIn(popup: Page): Promise<void> {
  await popup.locator('input[name=login]').fill('ann')
  await popup.locator('input[name=password]').fill('any')
  await popup.locator('button[type=submit]').click()
  await popup.getByRole('button', { name: 'Continue' }).click()
}

if (!runs) test.skip('a login at a provider: needs Chromium and the packages of console/', () => {})
else
  describe('a login at a provider', () => {
    test('opens the console, keeps a renewed token only in memory, and revokes the refresh token', async () => {
      const context = await browser.newContext()
      const page = await context.newPage()
      const faults: string[] = []
      page.on('pageerror', error => faults.push(error.message))
      const grants: URLSearchParams[] = []
      page.on('request', request => {
        const body = new URLSearchParams(request.postData() ?? '')
        if (body.has('grant_type')) grants.push(body)
      })
      await page.clock.install()
      await page.goto(`${installation.address}/console/`)
      const popup = await openLogin(page)
      await signIn(popup)
      await page.waitForSelector('.shell')
      await page.getByRole('heading', { name: 'Overview' }).waitFor()
      expect(Object.fromEntries(grants[0] ?? [])).toMatchObject({
        ...{ grant_type: 'authorization_code', client_id: clientId, code_verifier: expect.stringMatching(/^.{43,}$/) },
      })
      expect(grants[0]?.has('client_secret')).toBe(false)

      const [renewed] = await Promise.all([
        page.waitForResponse(response => response.url().endsWith('/token')),
        page.clock.fastForward((tokenSeconds - 55) * 1000),
      ])
      expect(renewed.status()).toBe(200)
      const { refresh_token: refreshToken } = (await renewed.json()) as { refresh_token: string }
      expect(grants.at(-1)?.get('grant_type')).toBe('refresh_token')
      const stored = await page.evaluate(
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
      )
      expect(stored).not.toMatch(/eyJ|refresh/)
      expect(page.url()).not.toMatch(/code=|state=/)

      await page.getByRole('button', { name: /^Account/ }).click()
      const [revocation] = await Promise.all([
        page.waitForResponse(response => response.url().endsWith('/token/revocation')),
        page.getByRole('menuitem', { name: 'Log out' }).click(),
      ])
      expect(revocation.status()).toBe(200)
      await page.getByText('You are logged out. The token was removed from memory.').waitFor()
      const body = new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: clientId,
        refresh_token: refreshToken,
      })
      expect((await fetch(renewed.url(), { method: 'POST', body })).status).toBe(400)
      expect(faults).toEqual([])
      await context.close()
    })

    test('shows an error if the user cancels it', async () => {
      const context = await browser.newContext()
      const page = await context.newPage()
      await page.goto(`${installation.address}/console/`)
      const popup = await openLogin(page)
      await popup.getByRole('link', { name: /Cancel/ }).click()
      await page
        .getByRole('alert')
        .getByText(/The login failed/)
        .waitFor()
      await context.close()
    })
  })
