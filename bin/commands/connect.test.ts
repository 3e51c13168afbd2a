/**
 * Tests the command, as a separate process or in this process, with an HTTP API and a psql that records its arguments
 * and environment.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { findPsql, withoutPsql } from '../../cli/connect/psql.ts'
import { exitCodeOf } from '../../cli/errors.ts'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import connect from './connect.ts'

const espalier = fileURLToPath(new URL('../espalier.mjs', import.meta.url))
const id = '0198c0de-0000-7000-8000-000000000001'
const password = 'pass/word with "all" of it?#'
const authority = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
const token = 'a.token.of-hers'
const roleOf: Record<string, string> = { application: 'app', admin: 'admin', application_read_only: 'app_read_only' }

let directory: string
let server: Server
let environment: NodeJS.ProcessEnv
let requests: {
  path: string
  authorization: string | undefined
  prefer: string | undefined
  host: string | undefined
}[]
let shop: { status: string; host: string; hasConnection: boolean }
let databases: { id: string; name: string }[]
let branches: { id: string; name: string; display_name?: string; status: string }[]

const bodyOf = (name: string, role?: string) => ({
  id,
  name,
  status: shop.status,
  domain: 'shop-0198c0de.db.example.com',
  ip_allowlist: { rules: [], state: 'closed' },
  ...(role === undefined || !shop.hasConnection
    ? {}
    : { connection: { username: role, password, host: shop.host, port: 30007, database: 'app' } }),
})

type Answer = { status?: number; text: string }
function answerOf(url: URL, prefer: string | undefined): Answer {
  const path = url.pathname.replace('/managed/v1', '')
  if (path === '/ca.pem') return { text: authority }
  if (path === '/databases') {
    const [limit, offset] = ['limit', 'offset'].map(name => Number(url.searchParams.get(name)))
    const page = databases.slice(offset, (offset ?? 0) + (limit ?? 0))
    return { text: JSON.stringify(page.map(database => ({ ...bodyOf(database.name), id: database.id }))) }
  }
  const ofBranch = new RegExp(`^/databases/${id}/branches(?:/(.+))?$`).exec(path)
  if (ofBranch !== null) {
    const one = branches.find(branch => branch.id === ofBranch[1])
    if (one === undefined) return { text: JSON.stringify(branches) }
    const host = `${one.name}.db.example.com`
    const connection = {
      username: roleOf[url.searchParams.get('user_type') ?? ''],
      password,
      host,
      port: 30008,
      database: 'app',
    }
    return { text: JSON.stringify({ ...one, ...(one.status === 'available' ? { connection } : {}) }) }
  }
  if (path !== `/databases/${id}`) return { status: 404, text: '{"code":404,"message":"database not found"}' }
  // A request that waits makes the database available.
  if (prefer !== undefined) shop = { ...shop, status: 'available', hasConnection: true }
  return { text: JSON.stringify(bodyOf('shop', roleOf[url.searchParams.get('user_type') ?? ''])) }
}

const api = (request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => {
  const { authorization, prefer, host } = request.headers
  const url = new URL(request.url ?? '/', 'http://api')
  requests.push({ path: `${url.pathname}${url.search}`, authorization, prefer: prefer?.toString(), host })
  const answer =
    authorization === `Bearer ${token}`
      ? answerOf(url, prefer?.toString())
      : { status: 401, text: '{"code":401,"message":"the token is invalid"}' }
  response.writeHead(answer.status ?? 200).end(answer.text)
}

const portOf = (listening: Server) => (listening.address() as AddressInfo).port

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'espalier-connect-'))
  requests = []
  shop = { status: 'available', host: 'db.example.com', hasConnection: true }
  databases = [{ id, name: 'shop' }]
  branches = [
    { id: crypto.randomUUID(), name: 'shop-a1b2c3d4', display_name: 'Preview', status: 'available' },
    { id: crypto.randomUUID(), name: 'shop-b1b2c3d4', display_name: 'Twin', status: 'available' },
    { id: crypto.randomUUID(), name: 'shop-c1b2c3d4', display_name: 'Twin', status: 'failed' },
  ]
  server = createServer(api).listen(0, '127.0.0.1')
  await once(server, 'listening')
  environment = {
    PATH: directory,
    XDG_CACHE_HOME: join(directory, 'cache'),
    ESPALIER_API_URL: `http://127.0.0.1:${portOf(server)}`,
    ESPALIER_TOKEN: token,
    PGSERVICE: 'elsewhere',
    PGSSLMODE: 'disable',
    PGAPPNAME: 'hers',
  }
})
afterEach(async () => {
  vi.unstubAllEnvs()
  server.closeAllConnections()
  server.close()
  await rm(directory, { recursive: true, force: true })
})

/** A psql that prints its version and records its arguments and environment. */
async function installPsql(version = '18.4', end = 'exit 3'): Promise<void> {
  const script = `#!/bin/sh
if [ "$1" = --version ]; then echo "psql (PostgreSQL) ${version}"; exit; fi
/usr/bin/env > ${directory}/environment
for word in "$@"; do echo "$word"; done > ${directory}/arguments
${end}
`
  await writeFile(join(directory, 'psql'), script)
  await chmod(join(directory, 'psql'), 0o755)
}

async function run(args: string[], extra: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [espalier, 'connect', ...args], { env: { ...environment, ...extra } })
  const output = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', text => {
      output[stream] += text
    })
  }
  const [code] = await once(child, 'close')
  return { code, ...output }
}

/** Runs the command in this process, and returns its error. */
async function faultOf(args: string[], extra: NodeJS.ProcessEnv = {}): Promise<Error> {
  for (const [name, value] of Object.entries({ ...environment, ...extra })) vi.stubEnv(name, value)
  try {
    await connect.run(args)
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('the command did not fail')
}

async function recordedCall() {
  const lines = (await readFile(join(directory, 'environment'), 'utf8')).split('\n')
  const variables = Object.fromEntries(lines.map(line => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]))
  const words = (await readFile(join(directory, 'arguments'), 'utf8')).split('\n').slice(0, -1)
  return { variables, words }
}

describe('runs psql', () => {
  test('with the connection in its environment and no arguments, and returns its exit code', async () => {
    await installPsql()
    expect(await run(['shop'])).toEqual({ code: 3, stdout: '', stderr: '' })
    const { variables, words } = await recordedCall()
    expect(words).toEqual([])
    expect(variables).toMatchObject({
      PGHOST: 'db.example.com',
      PGPORT: '30007',
      PGUSER: 'app',
      PGPASSWORD: password,
      PGDATABASE: 'app',
      PGSSLMODE: 'verify-full',
      PGAPPNAME: 'hers',
    })
    for (const foreign of ['PGSERVICE', 'PGHOSTADDR', 'ESPALIER_TOKEN']) expect(variables).not.toHaveProperty(foreign)
    const file = variables.PGSSLROOTCERT ?? ''
    expect(await readFile(file, 'utf8')).toBe(authority)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const cached = await readdir(join(directory, 'cache', 'espalier'))
    expect(cached.filter(name => name !== 'compiled')).toHaveLength(1)
    expect(requests.map(({ path }) => path)).toEqual([
      '/managed/v1/databases?limit=1000&offset=0',
      `/managed/v1/databases/${id}?user_type=application`,
      '/managed/v1/ca.pem',
    ])
  })

  test('as another role, and with the options after --', async () => {
    await installPsql()
    await run(['shop', '--role', 'admin', '--', '-c', 'SELECT 1', '--help'])
    const { variables, words } = await recordedCall()
    expect(variables.PGUSER).toBe('admin')
    expect(words).toEqual(['-c', 'SELECT 1', '--help'])
  })

  test.each([
    ['14.11', { PGHOST: 'shop-0198c0de.db.example.com', PGHOSTADDR: '127.0.0.1' }],
    ['15.6', { PGHOST: '127.0.0.1' }],
    ['19devel', { PGHOST: '127.0.0.1' }],
  ])('version %s verifies the certificate if the host is an address', async (version, expected) => {
    shop.host = '127.0.0.1'
    await installPsql(version)
    await run(['shop'])
    const { variables } = await recordedCall()
    expect(variables).toMatchObject({ PGSSLMODE: 'verify-full', ...expected })
    expect('PGHOSTADDR' in variables).toBe('PGHOSTADDR' in expected)
  })

  test('Ctrl-C is handled by psql: the command continues until psql ends', async () => {
    await installPsql('18.4', 'kill -INT $PPID; exit 0')
    expect(await run(['shop'])).toMatchObject({ code: 0, stderr: '' })
  })
})

test('the command waits for a database that is being created, and prints a message', async () => {
  await installPsql()
  shop = { ...shop, status: 'creating', hasConnection: false }
  expect(await run(['shop'])).toEqual({
    code: 3,
    stdout: '',
    stderr: 'espalier connect: shop is creating: waiting until it is available\n',
  })
  expect(requests.filter(({ prefer }) => prefer === 'wait=60')).toHaveLength(1)
})

test('--print prints a complete connection string', async () => {
  const { code, stdout } = await run(['shop', '--print', '--role', 'app_read_only'])
  expect(code).toBe(0)
  const uri = new URL(stdout.trim())
  expect(decodeURIComponent(uri.password)).toBe(password)
  expect(uri).toMatchObject({ username: 'app_read_only', host: 'db.example.com:30007', pathname: '/app' })
  expect(uri.searchParams.get('sslmode')).toBe('verify-full')
  expect(await readFile(uri.searchParams.get('sslrootcert') ?? '', 'utf8')).toBe(authority)
})

test('without psql, the command explains how to install it and how to connect, without the password', async () => {
  expect(findPsql(directory, [])).toBeUndefined()
  await installPsql()
  expect(findPsql('/nonexistent', [directory])).toBe(join(directory, 'psql'))
  await chmod(join(directory, 'psql'), 0o644)
  expect(findPsql(directory, [])).toBeUndefined()

  const connection = { username: 'admin', password, host: 'db.example.com', port: 30007, database: 'app' }
  const text = withoutPsql('shop --role admin', { domain: undefined, connection }, '/cache/ca.pem')
  for (const part of ['postgresql-client', 'db.example.com', '30007', 'admin', 'verify-full', '/cache/ca.pem'])
    expect(text).toContain(part)
  expect(text).toContain('espalier connect shop --role admin --print')
  expect(text).not.toContain(password)
})

test('finds a database beyond the first page', async () => {
  await installPsql()
  const others = Array.from({ length: 1000 }, (_, index) => ({ id: crypto.randomUUID(), name: `other${index}` }))
  databases = [...others, { id, name: 'shop' }]
  expect(await run(['shop'])).toMatchObject({ code: 3 })
})

test.each([
  ['its name', () => 'shop-a1b2c3d4'],
  ['its display name', () => 'Preview'],
  ['its id', () => branches[0]?.id ?? ''],
])('finds a branch by %s', async (_, branch) => {
  await installPsql()
  expect(await run(['shop', '--branch', branch(), '--role', 'admin'])).toEqual({ code: 3, stdout: '', stderr: '' })
  expect((await recordedCall()).variables).toMatchObject({
    PGHOST: 'shop-a1b2c3d4.db.example.com',
    PGPORT: '30008',
    PGUSER: 'admin',
  })
})

test('an error is one line, and has the exit code of cli/errors.ts', async () => {
  expect(await run(['shops'])).toEqual({
    code: 3,
    stdout: '',
    stderr: 'espalier connect: there is no database "shops"; known databases: shop\n',
  })
  expect(await run([])).toMatchObject({ code: 2, stdout: '' })
})

describe('prints one line with the problem', () => {
  test.each<[string, string[], NodeJS.ProcessEnv, number, string]>([
    ['no name', [], {}, 2, 'NAME is missing: espalier connect NAME'],
    ['two names', ['shop', 'other'], {}, 2, 'only one NAME is allowed'],
    [
      'an unknown role',
      ['shop', '--role', 'postgres'],
      {},
      2,
      '--role must be one of app, admin, app_read_only, not "postgres"',
    ],
    [
      '--print and psql',
      ['shop', '--print', '--', '-l'],
      {},
      2,
      '--print does not run psql: remove the arguments after --',
    ],
    ['no such database', ['shops'], {}, 3, 'there is no database "shops"; known databases: shop'],
    [
      'no such branch',
      ['shop', '--branch', 'x'],
      {},
      3,
      'there is no branch "x"; known branches: shop-a1b2c3d4, shop-b1b2c3d4, shop-c1b2c3d4',
    ],
    [
      'two branches of one display name',
      ['shop', '--branch', 'Twin'],
      {},
      2,
      'shop has 2 branches with the display name "Twin": shop-b1b2c3d4 (id ',
    ],
    [
      'a branch that failed',
      ['shop', '--branch', 'shop-c1b2c3d4'],
      {},
      1,
      'shop-c1b2c3d4 is failed: it has no address yet',
    ],
    ['an invalid token', ['shop'], { ESPALIER_TOKEN: 'another' }, 4, 'the token is invalid'],
    ['no token', ['shop'], { ESPALIER_TOKEN: '' }, 2, 'ESPALIER_API_URL requires ESPALIER_TOKEN'],
    [
      '--tenant and a token',
      ['shop', '--tenant', 'acme'],
      {},
      2,
      '--tenant cannot be used with ESPALIER_TOKEN: the token already names its tenant',
    ],
    [
      'a URL without TLS',
      ['shop'],
      { ESPALIER_API_URL: 'http://api.example.com' },
      2,
      'ESPALIER_API_URL must be https: otherwise the token would be sent in clear text',
    ],
    [
      'an address without a scheme',
      ['shop'],
      { ESPALIER_API_URL: 'api.example.com' },
      2,
      'ESPALIER_API_URL must be like https://api.example.com, without a path or query',
    ],
    [
      'a URL with a path',
      ['shop'],
      { ESPALIER_API_URL: 'https://api.example.com/v2' },
      2,
      'ESPALIER_API_URL must be like https://api.example.com, without a path or query',
    ],
    [
      'no server at the address',
      ['shop'],
      { ESPALIER_API_URL: 'http://127.0.0.1:1' },
      1,
      'cannot reach the API at http://127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1',
    ],
    [
      'a missing CA file',
      ['shop'],
      { ESPALIER_API_CA: '/nonexistent' },
      2,
      'ESPALIER_API_CA: cannot read /nonexistent (ENOENT)',
    ],
    [
      'a cache directory that cannot be created',
      ['shop'],
      { XDG_CACHE_HOME: '/proc/none' },
      2,
      'set XDG_CACHE_HOME to a writable directory',
    ],
  ])('%s', async (_title, args, extra, code, message) => {
    const fault = await faultOf(args, extra)
    expect(fault.message).toContain(message)
    expect(fault.message.split('\n')).toHaveLength(1)
    expect(fault.message).not.toContain(token)
    expect(exitCodeOf(fault)).toBe(code)
  })

  test.each([
    ['deleting', 'shop is deleting: connections are no longer accepted'],
    ['suspended', 'shop is suspended: resume it first: espalier resume shop'],
    [
      'failed',
      'shop is failed: it has no address yet, or this role has no password: run espalier tasks to see the reason',
    ],
  ])('a database that is %s', async (status, message) => {
    shop = { ...shop, status, hasConnection: false }
    expect((await faultOf(['shop'])).message).toBe(message)
  })

  test('an account without databases', async () => {
    databases = []
    expect((await faultOf(['shop'])).message).toBe('there is no database "shop": the account has none')
  })

  test('an installation that does not exist', async () => {
    const fault = await faultOf(['shop'], { ESPALIER_API_URL: '', ESPALIER_TOKEN: '', ESPALIER_HOME: directory })
    expect(fault.message).toContain(`no installation at ${directory}: start one with \`make run\``)
  })
})

test("the command verifies the CA and the name of an HTTPS API's certificate", async () => {
  await installPsql()
  const root = createAuthority()
  const { cert, key } = issueServerCertificate(root, { dnsNames: ['espalier-api'] })
  const secure = https.createServer({ cert, key }, api).listen(0, '127.0.0.1')
  await once(secure, 'listening')
  const file = join(directory, 'api-ca.pem')
  await writeFile(file, root.cert)
  const url = { ESPALIER_API_URL: `https://localhost:${portOf(secure)}` }
  try {
    expect((await run(['shop'], url)).stderr).toMatch(/cannot reach the API at https:\S+ unable to/)
    const byCa = await run(['shop'], { ...url, ESPALIER_API_CA: file })
    expect(byCa.stderr).toContain('espalier-api')
    expect(byCa.code).toBe(1)
    expect(requests).toEqual([])
    expect(await run(['shop'], { ...url, ESPALIER_API_CA: file, ESPALIER_API_NAME: 'espalier-api' })).toMatchObject({
      code: 3,
    })
    expect(new Set(requests.map(({ host }) => host))).toEqual(new Set(['espalier-api']))
  } finally {
    secure.closeAllConnections()
    secure.close()
  }
})
