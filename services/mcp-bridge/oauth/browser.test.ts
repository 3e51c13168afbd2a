/** The login page in a real browser: keyboard use, and no display in a frame. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashPassword } from '../../authentication/password.ts'
import { until } from '../../testing/client.ts'
import { startTestBridge, type TestBridge } from '../testing/bridge.ts'
import { type Browser, hasChromium, startBrowser } from '../testing/browser.ts'
import { formOf, password, pkce, register, request } from '../testing/oauth.ts'

if (!hasChromium) test.skip('the login page in a browser: needs Chromium', () => {})

const suite = () => {
  let browser: Browser
  let bridge: TestBridge
  let site: Server
  let siteUrl = ''
  let page = ''
  const urls: string[] = []

  beforeAll(async () => {
    site = createServer((incoming, response) => {
      urls.push(incoming.url ?? '')
      response.setHeader('Content-Type', 'text/html')
      response.end(`<title>site</title><iframe src="${page.replaceAll('&', '&amp;')}"></iframe>`)
    })
    await new Promise<void>(resolve => site.listen(0, '127.0.0.1', resolve))
    siteUrl = `http://127.0.0.1:${(site.address() as AddressInfo).port}` // a TCP server has such an address
    const users = [{ username: 'alice', password_hash: await hashPassword(password) }]
    bridge = await startTestBridge({
      server: { auth: { type: 'oauth' } },
      oauth_server: { allow_dynamic_registration: true, builtin: { users } },
    })
    const redirect_uri = `${siteUrl}/callback`
    const { client_id = '' } = await register(bridge, { redirect_uris: [redirect_uri] })
    page = `${bridge.url}/oauth/authorize?${formOf(request(client_id, pkce(), { redirect_uri }))}`
    browser = await startBrowser()
  })
  afterAll(async () => {
    await browser?.stop()
    await bridge.stop()
    site.closeAllConnections()
    await new Promise(resolve => site.close(resolve))
  })
  const focused = () => browser.evaluate('document.activeElement.id || document.activeElement.value')

  test('can be used by keyboard alone, and shows errors', async () => {
    await browser.open(page)
    await until(async () => (await focused()) === 'username')
    const order: unknown[] = []
    for (let n = 0; n < 3; n += 1) {
      await browser.press('Tab')
      order.push(await focused())
    }
    expect(order).toEqual(['password', 'allow', 'deny'])
    expect(await browser.evaluate('getComputedStyle(document.activeElement).outlineWidth')).toBe('3px')
    await browser.open(page)
    await until(async () => (await focused()) === 'username')
    await browser.type('alice')
    await browser.press('Tab')
    await browser.type('wrong')
    await browser.press('Enter')
    await until(
      async () => (await browser.evaluate('document.querySelector("[role=alert]")?.textContent')) !== undefined,
    )
    // The browser sets the focus of `autofocus` when it next renders, so after the element exists.
    await until(async () => (await focused()) === 'password')
    await browser.type(password)
    await browser.press('Enter')
    await until(() => urls.some(url => url.startsWith('/callback?code=')))
    expect(browser.log.filter(text => text.includes('Content Security Policy'))).toEqual([])
  })

  test('is not shown in a frame of another site', async () => {
    await browser.open(`${siteUrl}/frame`)
    await until(() => browser.log.some(text => text.includes("frame-ancestors 'none'")))
  })
}
if (hasChromium) describe('the login page in a browser', suite)
