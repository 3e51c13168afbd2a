/** Tests login with a real OpenID provider (`oidc-provider`): browser with PKCE, device code, and failed renewals. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { exitCodeOf } from '../errors.ts'
import type { Io } from '../io.ts'
import { logInByBrowser, logInByDevice, refresh } from './oidc.ts'

let server: Server
let issuer: string
let login: { issuer: string; client_id: string; scope: string }
beforeAll(async () => {
  for (const method of ['warn', 'info'] as const) vi.spyOn(console, method).mockImplementation(() => {})
  let handle: (request: Parameters<ReturnType<Provider['callback']>>[0], response: never) => unknown = () => {}
  server = createServer((request, response) => void handle(request, response as never)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const configuration = {
    clients: [
      {
        client_id: 'cli',
        redirect_uris: ['http://127.0.0.1/callback'],
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      },
    ],
    claims: { openid: ['sub'] },
    findAccount: (_: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
  }
  handle = new Provider(issuer, configuration).callback() as typeof handle
  login = { issuer, client_id: 'cli', scope: 'openid offline_access' }
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  vi.restoreAllMocks()
})

const io = { environment: {} } as Io

/** Acts as a browser: follows redirects, signs in as ann, and confirms. Returns the text of the last page. */
async function browse(start: string): Promise<string> {
  const cookies = new Map<string, string>()
  let url = start
  let form: URLSearchParams | undefined
  for (let steps = 0; steps < 15; steps++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: { cookie },
      ...(form === undefined ? {} : { method: 'POST', body: form }),
    })
    for (const one of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? []
      cookies.set(name, value)
    }
    const text = await answer.text()
    const location = answer.headers.get('location')
    form = undefined
    if (location !== null) {
      url = new URL(location, url).href
      continue
    }
    const fields = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)]
    const action = /action="([^"]+)"/.exec(text)?.[1]
    if (fields.length === 0 || action === undefined) return text
    form = new URLSearchParams(Object.fromEntries(fields.map(([, name = '', value = '']) => [name, value])))
    if (form.get('prompt') === 'login') form.set('login', 'ann')
    if (text.includes('name="confirm"')) form.set('confirm', 'yes')
    url = new URL(action, url).href
  }
  throw new Error('the provider redirects without an end')
}

const subjectOf = (token: string): unknown =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()).sub

test('logs in with a browser, PKCE and a redirect to a local port', async () => {
  let page: Promise<string> = Promise.resolve('')
  let opened = ''
  const note = (line: string) => {
    opened = line.split('\n')[1] ?? ''
    page = browse(opened).catch(String)
  }
  const { token, oidc } = await logInByBrowser({ ...login, audience: 'espalier' }, { io, note })
  expect(await page).toContain('return to the terminal')
  expect(subjectOf(token)).toBe('ann')
  expect(oidc).toMatchObject({ issuer, clientId: 'cli', expiresAt: expect.any(Number) })
  const query = new URL(opened).searchParams
  expect(query.get('code_challenge_method')).toBe('S256')
  expect(query.get('redirect_uri')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/)
  expect(query.get('audience')).toBe('espalier')
  // The port is closed once the login has ended.
  await expect(fetch(query.get('redirect_uri') ?? '')).rejects.toThrow('fetch failed')
})

test('a redirect with another state is refused', async () => {
  const note = (line: string) => {
    const { searchParams } = new URL(line.split('\n')[1] ?? '')
    const stolen = `${searchParams.get('redirect_uri')}?code=stolen&state=other&iss=${encodeURIComponent(issuer)}`
    void fetch(stolen).catch(() => {})
  }
  await expect(logInByBrowser(login, { io, note })).rejects.toThrow('the login failed: invalid response')
})

test('logs in with a code on another device', async () => {
  let code = ''
  let page: Promise<string> = Promise.resolve('')
  const note = (line: string) => {
    const [, uri = '', userCode = ''] = /^Open (\S+) and enter the code (\S+)$/.exec(line) ?? []
    code = userCode
    page = browse(`${uri}?user_code=${userCode}`).catch(String)
  }
  const { token } = await logInByDevice(login, { io, note })
  await page
  expect(code).not.toBe('')
  expect(subjectOf(token)).toBe('ann')
})

test('a failed renewal has exit code 4, and its message does not contain the refresh token', async () => {
  expect(exitCodeOf(await refresh({ issuer, clientId: 'cli' }).catch(error => error))).toBe(4)
  const failure = await refresh({ issuer, clientId: 'cli', refreshToken: 'a-secret' }).catch(error => error)
  expect(exitCodeOf(failure)).toBe(4)
  expect(failure.message).toContain('invalid_grant')
  expect(failure.message).not.toContain('a-secret')
})

test.each(['http://login.example.com', 'javascript:1', 'nothing'])('the provider %s is refused', async other => {
  const refused = logInByBrowser({ ...login, issuer: other }, { io, note: () => {} })
  await expect(refused).rejects.toThrow('must have an https URL')
})
