/**
 * Measures how logins delay other requests: p99 of requests at a fixed rate while eight clients log in continuously,
 * against p99 without these clients. Clients log in with `authenticate_user` at the tool server, and on the login page
 * at the bridge. Short rounds alternate, and the result is the median of the ratios of neighbouring rounds.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { hashPassword } from '../services/authentication/password.ts'
import { addToken, addUser } from '../services/mcp/credentials/administration.ts'
import type { McpServer } from './mcp-servers.ts'
import { startBridgeWith, startToolServer } from './mcp-servers.ts'
import type { Load } from './rest-load.ts'
import { against, median, print } from './statistics.ts'

const rounds = 7
const seconds = 3
const perSecond = 200
const connections = 16
const loginsAtOnce = 8
const aim = 1.25

const username = 'bench'
const password = 'correct horse battery staple'

const mcpHeaders = (token: string) => ({
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  ...(token !== '' && { Authorization: `Bearer ${token}` }),
})
const call = (name: string, args: object) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })

function requestText(path: string, token: string, body: string): string {
  const headers = { Host: '127.0.0.1', ...mcpHeaders(token), 'Content-Length': Buffer.byteLength(body) }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

/** A server, the measured request, and a function that logs in. */
type MeasuredServer = {
  readonly name: string
  readonly server: McpServer
  readonly request: string
  login(): Promise<void>
}

async function toolServer(database: string, directory: string): Promise<MeasuredServer> {
  const [tokenFile, userFile] = [join(directory, 'tokens.yaml'), join(directory, 'users.yaml')]
  const { token } = await addToken(tokenFile, { note: 'bench', lifetimeMs: undefined, database: undefined }, Date.now())
  await addUser(userFile, username, { password }, Date.now())
  const server = await startToolServer(database, ['-token-file', tokenFile, '-user-file', userFile])
  return {
    name: 'tool server',
    server,
    request: requestText('/mcp/v1', token, call('query_database', { query: 'SELECT 1' })),
    async login() {
      const body = call('authenticate_user', { username, password })
      const answer = await fetch(`http://127.0.0.1:${server.port}/mcp/v1`, {
        method: 'POST',
        headers: mcpHeaders(''),
        body,
      })
      if (!(await answer.text()).includes('session_token')) throw new Error('a login was refused')
    },
  }
}

const form = { 'Content-Type': 'application/x-www-form-urlencoded' }

async function bridge(database: string, directory: string, port: number): Promise<MeasuredServer> {
  const [secret, redirect, origin] = [
    'a-secret-of-the-bench',
    'http://127.0.0.1:9/callback',
    `http://127.0.0.1:${port}`,
  ]
  const client = {
    client_id: 'bench',
    client_secret_sha256: createHash('sha256').update(secret).digest('hex'),
    redirect_uris: [redirect],
    client_credentials_scopes: ['mcp:read'],
  }
  const server = await startBridgeWith(database, directory, port, {
    server: { public_url: origin, auth: { type: 'oauth' } },
    oauth_server: {
      enabled: true,
      state: join(directory, 'state.sqlite'),
      builtin: { users: [{ username, password_hash: await hashPassword(password) }] },
      clients: [client],
      login_max_attempts: 1_000,
    },
  })
  const tokenRequest = { grant_type: 'client_credentials', client_id: 'bench', client_secret: secret }
  const answer = await fetch(`${origin}/oauth/token`, {
    method: 'POST',
    headers: form,
    body: new URLSearchParams(tokenRequest),
  })
  const { access_token } = z.object({ access_token: z.string() }).parse(await answer.json())
  const query = new URLSearchParams({
    ...{ response_type: 'code', client_id: 'bench', redirect_uri: redirect },
    ...{ code_challenge: 'x'.repeat(43), code_challenge_method: 'S256' },
  })
  return {
    name: 'bridge',
    server,
    request: requestText('/mcp', access_token, call('query_database', { query: 'SELECT 1' })),
    async login() {
      const page = await fetch(`${origin}/oauth/authorize?${query}`)
      const csrf_token = /name="csrf_token" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
      const cookie = page.headers.get('set-cookie')?.split(';')[0] ?? ''
      const body = new URLSearchParams({ csrf_token, username, password, decision: 'allow' })
      const headers = { ...form, Cookie: cookie, Origin: origin }
      const sent = await fetch(`${origin}/oauth/authorize`, { method: 'POST', headers, body, redirect: 'manual' })
      if (!sent.headers.get('location')?.includes('code=')) throw new Error('a login was refused')
    },
  }
}

async function compareLogins(load: Load, { name, server, request, login }: MeasuredServer): Promise<void> {
  const order = { port: server.port, request, connections, seconds, perSecond }
  let logins = 0
  async function withLogins() {
    let isOver = false
    const users = Array.from({ length: loginsAtOnce }, async () => {
      for (; !isOver; logins++) await login()
    })
    const measured = await load.measure(order)
    isOver = true
    await Promise.all(users)
    return measured
  }
  await load.measure(order)
  const found: (readonly [without: number, during: number])[] = []
  for (let number = 0; number < rounds; number++) {
    const [without, during] = [await load.measure(order), await withLogins()]
    if (without.failures + during.failures > 0) throw new Error('a request failed')
    found.push([without.p99, during.p99])
  }
  const [without, during] = [0, 1].map(at => median(found.map(pair => pair[at] ?? 0))) as [number, number] // one for each column
  const ratio = median(found.map(([one, other]) => other / one))
  const rate = (logins / rounds / seconds).toFixed(1)
  print(
    `${name}: p99 of ${perSecond} a second while other clients log in`,
    `${during.toFixed(1)} ms with ${rate} logins a second, ${without.toFixed(1)} ms without: ${against(ratio, aim, 'at most')}`,
  )
}

export async function measureLogins(load: Load, database: string, directory: string, port: number): Promise<void> {
  for (const judged of [await toolServer(database, directory), await bridge(database, directory, port)]) {
    try {
      await compareLogins(load, judged)
    } finally {
      await judged.server.stop()
    }
  }
}
