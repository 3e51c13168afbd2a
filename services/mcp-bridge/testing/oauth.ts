/** A user with a browser for tests: follows redirects with cookies, and fills in the form. */
import { createHash, randomBytes } from 'node:crypto'
import type { Answer } from '../../testing/client.ts'
import type { TestBridge } from './bridge.ts'

export const redirectUri = 'http://127.0.0.1:9/callback'

export type Pkce = { readonly verifier: string; readonly challenge: string }

export function pkce(): Pkce {
  const verifier = randomBytes(32).toString('base64url')
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') }
}

export const formHeaders = { 'Content-Type': 'application/x-www-form-urlencoded' }

export const formOf = (fields: Record<string, string>): string => new URLSearchParams(fields).toString()

/** Posts a form as a client. */
export const postForm = (bridge: TestBridge, path: string, fields: Record<string, string>): Promise<Answer> =>
  bridge.send(path, { method: 'POST', headers: formHeaders, body: formOf(fields) })

export async function register(bridge: TestBridge, fields: object = {}): Promise<{ [field: string]: string }> {
  const body = JSON.stringify({ redirect_uris: [redirectUri], client_name: 'A <b>client</b>', ...fields })
  const answer = await bridge.send('/register', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body,
  })
  return JSON.parse(answer.text)
}

export const cookieFrom = ({ headers }: Answer): string =>
  (headers['set-cookie'] ?? []).map(one => one.split(';')[0]).join('; ')

export const csrfFrom = ({ text }: Answer): string => /name="csrf_token" value="([^"]+)"/.exec(text)?.[1] ?? ''

export const locationOf = ({ headers }: Answer): URL => new URL(headers.location ?? 'none:')

/** Opens the page to which a client redirects its user. */
export function openPage(bridge: TestBridge, query: Record<string, string>, cookie = ''): Promise<Answer> {
  const headers: Record<string, string> = cookie === '' ? {} : { Cookie: cookie }
  return bridge.send(`/oauth/authorize?${formOf(query)}`, { headers })
}

export const sendPage = (bridge: TestBridge, page: Answer, fields: Record<string, string>): Promise<Answer> =>
  bridge.send('/oauth/authorize', {
    method: 'POST',
    headers: { ...formHeaders, Cookie: cookieFrom(page), Origin: bridge.url },
    body: formOf({ csrf_token: csrfFrom(page), ...fields }),
  })

export const request = (clientId: string, { challenge }: Pkce, more: Record<string, string> = {}) => ({
  response_type: 'code',
  client_id: clientId,
  redirect_uri: redirectUri,
  state: 'a state',
  code_challenge: challenge,
  code_challenge_method: 'S256',
  scope: 'mcp:read mcp:write',
  ...more,
})

export const password = 'correct horse battery staple'

/** Runs the complete flow until the client has a code. */
export async function signIn(
  bridge: TestBridge,
  clientId: string,
  keys: Pkce,
  more: Record<string, string> = {},
  username = 'alice',
): Promise<URL> {
  const page = await openPage(bridge, request(clientId, keys, more))
  return locationOf(await sendPage(bridge, page, { username, password, decision: 'allow' }))
}

type Tokens = { readonly [field: string]: string }

/** Returns the token endpoint's response to a code. */
export async function redeem(bridge: TestBridge, clientId: string, keys: Pkce, code: string): Promise<Tokens> {
  const fields = {
    grant_type: 'authorization_code',
    code,
    redirect_uri: redirectUri,
    client_id: clientId,
    code_verifier: keys.verifier,
  }
  return JSON.parse((await postForm(bridge, '/oauth/token', fields)).text)
}

export async function tokensFor(
  bridge: TestBridge,
  clientId: string,
  more: Record<string, string> = {},
  username = 'alice',
): Promise<Tokens> {
  const keys = pkce()
  const location = await signIn(bridge, clientId, keys, more, username)
  return redeem(bridge, clientId, keys, location.searchParams.get('code') ?? '')
}
