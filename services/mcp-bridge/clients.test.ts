/**
 * Tests real clients with the complete OAuth flow: two major versions of the TypeScript SDK, and the SDKs of Python and
 * Go. They use the tool server over stdio through the bridge. Also runs the conformance checker of MCP.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { hashPassword } from '../authentication/password.ts'
import { goProgram, type Program, pythonProgram } from '../testing/mcp-clients/programs.ts'
import { freePort } from '../testing/postgres.ts'
import { startTestBridge, type TestBridge } from './testing/bridge.ts'
import { locationOf, password, redirectUri, sendPage } from './testing/oauth.ts'

const fixture = fileURLToPath(new URL('../mcp/testing/fixture-stdio.ts', import.meta.url))
const conformanceProgram = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const mcp_server = { args: [fixture] }
const scratch = mkdtempSync(join(tmpdir(), 'espalier-bridge-clients-'))
const information = { name: 'test', version: '1' }

let guarded: TestBridge
beforeAll(async () => {
  const users = [{ username: 'alice', password_hash: await hashPassword(password) }]
  guarded = await startTestBridge({
    mcp_server,
    server: { auth: { type: 'oauth' } },
    oauth_server: { allow_dynamic_registration: true, builtin: { users } },
  })
})
afterAll(async () => {
  await guarded.stop()
  rmSync(scratch, { recursive: true, force: true })
})

/** The OAuth state of a client. A script fills in the form as its user. */
function provider(bridge: TestBridge) {
  const saved: { found?: unknown; client?: unknown; tokens?: unknown; verifier?: string; back?: URL; state?: string } =
    {}
  return {
    saved,
    redirectUrl: redirectUri,
    clientMetadata: {
      redirect_uris: [redirectUri],
      client_name: 'SDK',
      token_endpoint_auth_method: 'none',
      scope: 'mcp:read mcp:write',
    },
    state: () => {
      saved.state = crypto.randomUUID()
      return saved.state
    },
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
      const page = await bridge.send(`${url.pathname}${url.search}`)
      saved.back = locationOf(await sendPage(bridge, page, { username: 'alice', password, decision: 'allow' }))
    },
  }
}

test.each(['auto', 'legacy'] as const)('the newer SDK registers, signs in and calls (%s)', async mode => {
  const login = provider(guarded)
  // biome-ignore lint/suspicious/noExplicitAny: what it keeps is its own business, and is handed back as it came
  const make = () => new StreamableHTTPClientTransport(new URL(`${guarded.url}/mcp`), { authProvider: login as any })
  const client = () => new Client(information, { versionNegotiation: { mode } })
  const first = make()
  await expect(client().connect(first)).rejects.toThrow()
  expect(login.saved.back?.searchParams.get('state')).toBe(login.saved.state)
  await first.finishAuth(login.saved.back?.searchParams ?? new URLSearchParams())
  const connected = client()
  await connected.connect(make())
  onTestFinished(() => connected.close())
  const { content } = await connected.callTool({ name: 'test_simple_text' })
  expect(content).toMatchObject([{ type: 'text' }])
  expect((await connected.listTools()).tools.length).toBeGreaterThan(5)
})

test('the older SDK registers, signs in, calls, and answers a request', async () => {
  const login = provider(guarded)
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const make = () => new OldTransport(new URL(guarded.url), { authProvider: login as any })
  const client = () => {
    const made = new OldClient(information, { capabilities: { elicitation: {} } })
    made.setRequestHandler(ElicitRequestSchema, async () => ({
      action: 'accept' as const,
      content: { username: 'ann', email: 'a@b.c' },
    }))
    return made
  }
  const first = make()
  // biome-ignore lint/suspicious/noExplicitAny: its transports do not fit its own type where optional properties are exact
  await expect(client().connect(first as any)).rejects.toThrow()
  await first.finishAuth(login.saved.back?.searchParams.get('code') ?? '')
  const connected = client()
  // biome-ignore lint/suspicious/noExplicitAny: as above
  await connected.connect(make() as any)
  onTestFinished(() => connected.close())
  const called = await connected.callTool({ name: 'test_elicitation', arguments: { message: 'who?' } })
  expect(JSON.stringify(called.content)).toContain('ann')
})

const tokenSeconds = 2

/** The number of refresh tokens that a bridge has issued, and how many of them were used. */
function refreshTokens({ folder }: TestBridge): readonly [given: number, used: number] {
  const database = new DatabaseSync(join(folder, 'oauth-state.sqlite'), { readOnly: true })
  const row = database.prepare(`SELECT count(*) AS given, sum(uses) AS used FROM oauth_records WHERE kind = 'refresh'`)
  const { given, used } = row.get() ?? {}
  database.close()
  return [Number(given), Number(used)]
}

/** Registers, signs in, calls, and calls again with a refreshed token. */
async function signsIn({ command, args, env }: Program): Promise<void> {
  const users = [{ username: 'alice', password_hash: await hashPassword(password) }]
  const bridge = await startTestBridge({
    mcp_server,
    server: { auth: { type: 'oauth' } },
    oauth_server: { allow_dynamic_registration: true, token_lifetime: `${tokenSeconds}s`, builtin: { users } },
  })
  onTestFinished(() => bridge.stop())
  const programArguments = [...args, `${bridge.url}/mcp`, redirectUri, 'test_simple_text', String(tokenSeconds + 0.5)]
  const child = spawn(command, programArguments, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill())
  let output = ''
  child.stderr.setEncoding('utf8').on('data', piece => {
    output += piece
  })
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const { value: goTo } = await lines.next()
  if (goTo === undefined) throw new Error(output)
  const { pathname, search } = new URL(goTo)
  const page = await bridge.send(`${pathname}${search}`)
  const back = locationOf(await sendPage(bridge, page, { username: 'alice', password, decision: 'allow' }))
  child.stdin.write(`${back.href}\n`)
  const { value: texts } = await lines.next()
  expect(JSON.parse(texts ?? JSON.stringify(output))).toEqual([expect.stringContaining('simple'), expect.anything()])
  const [given, used] = refreshTokens(bridge)
  expect([given > 1, used]).toEqual([true, given - 1])
}

const python = pythonProgram('oauth_client.py')
if (python === undefined) test.skip('clients in other languages: need the Python package mcp', () => {})
else test('the client of Python registers, signs in, calls, and refreshes its token', () => signsIn(python), 60_000)

const go = goProgram('./oauth', scratch)
if (go === undefined)
  test.skip('clients in other languages: need the Go module github.com/modelcontextprotocol/go-sdk', () => {})
else test('the client of Go registers, signs in, calls, and refreshes its token', () => signsIn(go), 60_000)

test('the conformance checker of MCP gets a code and a token of the authorization server', async () => {
  const port = await freePort()
  const users = [{ username: 'alice', password_hash: await hashPassword(password) }]
  const clients = [{ client_id: 'judge', redirect_uris: [`http://127.0.0.1:${port}/callback`] }]
  const judged = await startTestBridge({
    server: { auth: { type: 'oauth' } },
    oauth_server: { builtin: { users }, clients },
  })
  const where = ['--url', judged.url, '--client-id', 'judge', '--resource', `${judged.url}/mcp`, '-p', String(port)]
  const child = spawn(process.execPath, [conformanceProgram, 'authorization', ...where], {
    cwd: tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  let text = ''
  let isSent = false
  /** Does what the checker requires of a user. */
  async function signIn(): Promise<void> {
    const authorizePath = /http:\/\/[\d.:]+(\/oauth\/authorize\?\S+)\s/.exec(text)?.[1]
    if (authorizePath === undefined || !text.includes('Callback server started') || isSent) return
    isSent = true
    const page = await judged.send(authorizePath)
    await fetch(locationOf(await sendPage(judged, page, { username: 'alice', password, decision: 'allow' })))
  }
  for (const output of [child.stdout, child.stderr])
    output.on('data', piece => {
      text += piece
      void signIn()
    })
  const [code] = await ended
  await judged.stop()
  expect([code, code === 0 ? '' : text]).toEqual([0, ''])
  expect(text).toContain('Total: 3 passed, 0 failed')
})
