/** Tests that commands escape hostile text from an API, from `.espalier` and from arguments. */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import connect from '../bin/commands/connect.ts'
import { withoutPsql } from './connect/psql.ts'
import { runCommand } from './testing/cli.ts'

const attack = '\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eevil\r\n\u0000'
const id = '0198c0de-0000-7000-8000-000000000001'
const database = {
  id,
  name: `shop${attack}`,
  status: attack,
  size: attack,
  display_name: attack,
  ip_allowlist: { rules: [{ cidr: attack, label: attack }] },
  services: [{ service_type: attack, state: attack, uri: attack, message: attack }],
}
const branch = { id, name: `b${attack}`, status: attack, display_name: attack }

const answers: Record<string, unknown> = {
  '/databases': [database],
  [`/databases/${id}`]: database,
  [`/databases/${id}/branches`]: [branch],
  [`/databases/${id}/logs`]: {
    logs: [{ timestamp: attack, level: attack, message: attack, detail: attack, hint: attack, statement: attack }],
  },
  [`/databases/${id}/metrics`]: { series: [{ name: attack, columns: [attack], values: [[1]] }] },
  '/backups': [{ ...branch, database_id: attack, created_at: attack, kind: attack, purpose: attack }],
  '/tasks': [
    {
      ...branch,
      created_at: attack,
      subject_kind: attack,
      subject_id: attack,
      messages: [{ text: attack }],
      error: attack,
    },
  ],
  '/audit': [
    {
      ...{ id, time: attack, member: attack, method: attack, path: attack, status: 200, outcome: attack },
      sql: { mode: attack, role: attack, statements: 1, result: attack, sqlstate: attack },
    },
  ],
  '/sizes': [
    {
      ...branch,
      version: 1,
      cpu_limit: attack,
      memory_limit: attack,
      storage_size: attack,
      connections: 1,
      pricing: { price_amount: 1, currency: attack, billing_interval: attack },
    },
  ],
}

/** The responses of an API whose objects have hostile ids. */
const hostileIds: Record<string, unknown> = {
  '/databases': [{ ...database, id: `${id}${attack}` }],
  [`/databases/${id}/branches`]: [{ ...branch, id: `../${attack}` }],
  '/backups': [{ ...branch, id: attack, database_id: id, created_at: '', kind: '' }],
  '/tasks': [{ ...branch, id: attack, created_at: '', subject_kind: '', subject_id: '', messages: [] }],
  '/audit': [{ id: attack, time: '', method: '', path: '', status: 200, outcome: '' }],
}

let server: Server
let directory: string
let answersOf = answers
let environment: NodeJS.ProcessEnv
beforeAll(async () => {
  server = createServer((request, response) => {
    const path = (request.url ?? '').replace('/managed/v1', '').split('?')[0] ?? ''
    const answer = request.method === 'GET' ? answersOf[path] : undefined
    response
      .writeHead(answer === undefined ? 409 : 200)
      .end(JSON.stringify(answer ?? { code: 409, message: `refused ${attack}` }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  directory = mkdtempSync(join(tmpdir(), 'espalier-hostile-'))
  environment = {
    XDG_CACHE_HOME: directory,
    XDG_CONFIG_HOME: directory,
    ESPALIER_API_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ESPALIER_TOKEN: 'token',
  }
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  rmSync(directory, { recursive: true, force: true })
})
afterEach(() => {
  answersOf = answers
})

// biome-ignore lint/suspicious/noControlCharactersInRegex: the tests search for control characters
const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/

test.each([
  'db list',
  'db list --json',
  'db list --quiet',
  `db get ${id}`,
  'db get unknown',
  `db delete ${id} --yes`,
  `db delete ${id}`,
  `branch list ${id}`,
  `branch create x -d ${id}`,
  'db create x --region r --size s',
  'db create x --size s',
  'tasks',
  'audit',
  `logs ${id}`,
  `logs ${id} --json`,
  `metrics ${id}`,
  'backup list',
  `backup delete ${id} --yes`,
  'size list',
  `allow list ${id}`,
  `allow remove 203.0.113.7 ${id}`,
  `services list ${id}`,
  `services remove mcp ${id} --yes`,
  `suspend ${id} --wait`,
  `rotate ${id}`,
  `restore ${id} --backup ${id}`,
])('%s prints no control character', async line => {
  const { out, err } = await runCommand(line, { environment, typed: 'no\n' })
  expect(out + err).not.toBe('')
  expect(out + err).not.toMatch(controls)
})

test.each(['db list', `branch list ${id}`, 'backup list', 'tasks', 'audit', `db delete ${id} --yes`])(
  '%s refuses ids with slashes or control characters',
  async line => {
    answersOf = { ...answers, ...hostileIds, ...(line.startsWith('branch') && { '/databases': [database] }) }
    const { code, out, err } = await runCommand(line, { environment })
    expect({ code, out, err }).toEqual({ code: 1, out: '', err: expect.stringContaining('is not the API of Espalier') })
    expect(err).not.toMatch(controls)
  },
)

test.each(['host', 'username', 'database', 'password'])(
  'a connection with control characters in its %s is refused',
  async field => {
    const connection = { host: 'h', port: 1, username: 'u', password: 'p', database: 'd' }
    for (const value of ['a\u001b[2J', 'a\u009b31m', 'a\nPGHOST=evil', '\u202ea']) {
      const hostile = { ...database, connection: { ...connection, [field]: value } }
      answersOf = { ...answers, [`/databases/${id}`]: hostile }
      for (const line of [`env ${id}`, `db connect ${id} --print`, `sql ${id} -c x`]) {
        const { code, out, err } = await runCommand(line.split(' '), { environment })
        expect({ code, out }).toEqual({ code: 1, out: '' })
        expect(err).toContain('is not the API of Espalier')
      }
    }
  },
)

test.each([
  ['the database', { database: `x${attack}` }],
  ['the branch', { database: id, branch: `x${attack}` }],
])('names in .espalier are escaped: %s', async (_, project) => {
  writeFileSync(join(directory, '.espalier'), JSON.stringify(project))
  for (const line of ['db get', 'branch list', 'sql -c x', 'env', 'logs', 'suspend']) {
    const { out, err } = await runCommand(line, { environment, directory })
    // Commands about a database do not read the branch.
    const isRead = 'branch' in project ? /^(sql|env|logs)/.test(line) : true
    expect(err.includes('x\\u001b]0;owned')).toBe(isRead)
    expect(out + err).not.toMatch(controls)
  }
  rmSync(join(directory, '.espalier'))
})

test('arguments are escaped', async () => {
  const word = 'x\u009b31m\u202e'
  for (const line of [
    ['db', 'get', word],
    ['db', word],
    ['db', 'list', `--${word}`],
    [word],
    ['db', 'list', '--profile', word],
  ]) {
    const { err } = await runCommand(line, { environment })
    expect(err).toContain('x\\x9b31m\\u202e')
    expect(err).not.toMatch(controls)
  }
})

test('espalier connect escapes its status line and its instructions', async () => {
  const again = 'x\u009b31m'
  const connection = { host: 'h', port: 1, username: 'u', password: 'p', database: 'd' }
  expect(withoutPsql(again, { domain: undefined, connection }, '/ca.pem')).not.toMatch(controls)
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  const logged = vi.spyOn(console, 'error').mockImplementation(() => {})
  answersOf = { ...answers, [`/databases/${id}`]: { ...database, status: 'creating' } }
  const failure = await connect.run([id]).catch(String)
  expect(failure).toContain('it has no address yet')
  const printed = `${failure}${logged.mock.calls.join('')}`
  expect(printed).toContain('is creating')
  expect(printed).not.toMatch(controls)
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})
