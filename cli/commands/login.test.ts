import { once } from 'node:events'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { token } from '../../api/testing/harness.ts'
import { readProfiles, writeProfiles } from '../profiles.ts'
import { type Cli, golden, startCli } from '../testing/cli.ts'

let cli: Cli
beforeAll(async () => {
  cli = await startCli()
})
afterAll(() => cli?.close())

/** An environment without an API and a token. */
const environment = { ESPALIER_API_URL: '', ESPALIER_TOKEN: '', ESPALIER_HOME: '/nonexistent' }

test('login reads a token without echo, verifies it, and stores it for the owner only', async () => {
  const secret = await token()
  expect(await cli.run(`login --api ${cli.url}`, { environment, piped: 'wrong\n' })).toMatchObject({ code: 4 })
  expect(await cli.run(`login --api ${cli.url}`, { environment, piped: '' })).toMatchObject({ code: 2 })
  const logged = await cli.run(`login --api ${cli.url} --method token`, { environment, typed: `${secret}\n` })
  expect(logged).toEqual({
    code: 0,
    out: `Logged in to ${cli.url}: profile default, 0 databases\n`,
    err: 'Token: \n',
  })
  const path = join(cli.directory, 'config', 'espalier', 'profiles.json')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
    current: 'default',
    profiles: { default: { token: secret } },
  })
  expect(await cli.run('db list -q', { environment })).toEqual({ code: 0, out: '', err: '' })
})

test('shows, chooses and deletes profiles, and prints no token', async () => {
  const second = await token({ tenant: 'other' })
  await cli.run(`login --api ${cli.url} --profile other`, { environment, piped: second })
  const { out } = await cli.run('login --status', { environment })
  expect(golden(out.replaceAll(cli.url, 'URL').replaceAll(cli.directory, 'HOME'))).toMatchInlineSnapshot(`
    "profile    other
    api        URL
    tenant     other
    subject    ada
    expires    TIME
    databases  0
    profiles   local, default, other
    file       HOME/config/espalier/profiles.json
    "
  `)
  expect(out).not.toContain(second)
  expect(JSON.parse((await cli.run('login --status --json --profile default', { environment })).out)).toMatchObject({
    tenant: 'acme',
  })
  expect(await cli.run('login --use none', { environment })).toMatchObject({ code: 2 })
  expect(await cli.run('login --use default', { environment })).toMatchObject({ code: 0 })
  expect(await cli.run('logout', { environment })).toMatchObject({ code: 0, out: 'The profile default is deleted\n' })
  expect(await cli.run('logout', { environment })).toMatchObject({
    code: 2,
    err: 'espalier logout: no profile is current\n',
  })
  // No profile is current, so the command uses the embedded installation. This home has no installation.
  expect(await cli.run('db list', { environment })).toMatchObject({
    err: expect.stringContaining('no installation at'),
  })
})

test('an API must be https or on this machine', async () => {
  expect(await cli.run('login --api http://api.example.com', { environment })).toMatchObject({
    code: 2,
    err: expect.stringContaining('--api must be https'),
  })
  expect(await cli.run('login', { environment: { ...environment, XDG_CONFIG_HOME: '/proc/none' } })).toMatchObject({
    code: 2,
  })
})

describe('with a provider', () => {
  /** One server is the API and the provider. It records the requests to the provider. */
  let server: Server
  let url: string
  let requests: string[]
  let refuses: boolean
  beforeEach(async () => {
    requests = []
    refuses = false
    server = createServer(async (request, response) => {
      let body = ''
      for await (const part of request) body += part
      const path = request.url ?? ''
      if (path === '/managed/v1/login')
        return void response.end(JSON.stringify({ oidc: { issuer: url, client_id: 'cli', scope: 'openid' } }))
      requests.push(`${path} ${body}`.trim())
      if (path === '/revoke') return void response.writeHead(refuses ? 503 : 200).end()
      if (!path.startsWith('/.well-known')) return void response.writeHead(400).end()
      const document = { issuer: url, token_endpoint: `${url}/token`, revocation_endpoint: `${url}/revoke` }
      response.setHeader('content-type', 'application/json').end(JSON.stringify(document))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    rmSync(join(cli.directory, 'config'), { recursive: true, force: true })
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })
  const config = () => ({ XDG_CONFIG_HOME: join(cli.directory, 'config') })
  const oidc = () => ({ issuer: url, clientId: 'cli', refreshToken: 'a-refresh-token' })

  test('login prints the provider and the API, and asks for confirmation', async () => {
    const line = `login --api ${url} --method device`
    const refused = await cli.run(line, { environment, typed: 'n\n' })
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringContaining(`You log in at the provider ${url}. The API ${url} `),
    })
    expect(await cli.run(line, { environment })).toMatchObject({ code: 2, err: expect.stringContaining('--yes') })
    expect(requests).toEqual([])
    for (const answer of [{ typed: 'y\n' }, {}]) {
      await cli.run('typed' in answer ? line : `${line} --yes`, { environment, ...answer })
      expect(requests.splice(0)).toContainEqual(expect.stringContaining('/.well-known'))
    }
  })

  test('login asks for no confirmation if the profile has a login for the same API and provider', async () => {
    const profile = { api: url, token: 'a.b.c', oidc: oidc() }
    const other = { ...profile, api: cli.url }
    await writeProfiles(config(), { profiles: { same: profile, other } })
    const same = await cli.run('login --profile same --method device', { environment })
    expect(same.err).not.toContain('You log in at')
    expect(requests).not.toEqual([])
    const moved = await cli.run(`login --profile other --api ${url} --method device`, { environment })
    expect(moved).toMatchObject({ code: 2, err: expect.stringContaining('--yes') })
  })

  test.each([false, true])(
    'logout revokes the refresh token and deletes the profile (provider fails: %s)',
    async fails => {
      refuses = fails
      await writeProfiles(config(), {
        current: 'default',
        profiles: { default: { api: url, token: 'a.b.c', oidc: oidc() } },
      })
      const { code, out, err } = await cli.run('logout', { environment })
      expect({ code, out }).toEqual({ code: 0, out: 'The profile default is deleted\n' })
      expect(err === '').toBe(!fails)
      expect(err).not.toContain('a-refresh-token')
      expect(requests.at(-1)).toMatch(/^\/revoke .*token=a-refresh-token/)
      expect(await readProfiles(config())).toEqual({ profiles: {} })
    },
  )
})
