/** Attacks by a hostile tenant and a hostile local user, against an installation as its user runs it. */

import { readdir, readFile, stat } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, type Connection, createApiClient, type Database, openToThisMachine, query } from './client.ts'
import { createHome, type Home, processTree, type Running } from './process.ts'

let home: Home
let running: Running
let owner: ApiClient
let otherTenant: ApiClient
let database: Database
let secrets: string[]
let output = ''

const tokenOf = async (tenant: string) => (await home.command(['token', '--tenant', tenant])).stdout.trim()
const userTypes = ['application', 'admin', 'application_read_only']

beforeAll(async () => {
  home = await createHome()
  running = await home.run()
  const [ownToken, otherToken] = [await tokenOf('owner'), await tokenOf('stranger')]
  running.process.stdout?.on('data', chunk => (output += chunk))
  running.process.stderr?.on('data', chunk => (output += chunk))
  owner = createApiClient(running.api, ownToken)
  otherTenant = createApiClient(running.api, otherToken)
  database = (await owner.create({ name: 'target', ip_allowlist: openToThisMachine })).body
  const connections = await Promise.all(userTypes.map(type => owner.connection(database.id, type)))
  for (const connection of connections) await query(connection, 'SELECT 1')
  secrets = [...connections.map(({ password }: Connection) => password), ownToken, otherToken]
  expect(new Set(secrets).size).toBe(5)
})
afterAll(() => home.remove())

/** Every file below a directory, with its mode. */
async function filesBelow(directory: string): Promise<{ path: string; mode: number }[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  const found = await Promise.all(
    files.map(path =>
      stat(path)
        .then(({ mode }) => ({ path, mode: mode & 0o777 }))
        .catch(() => undefined),
    ),
  )
  return found.filter(file => file !== undefined)
}

test('no log, file, command line or environment contains a password or token', async () => {
  const found: string[] = []
  const check = (where: string, text: string | Buffer) => {
    if (secrets.some(secret => text.includes(secret))) found.push(where)
  }
  check('output', output)
  for (const { path } of await filesBelow(home.path)) check(path, await readFile(path).catch(() => ''))
  for (const pid of await processTree(running.process.pid ?? 0)) {
    for (const file of ['cmdline', 'environ']) {
      check(`${pid}/${file}`, await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => ''))
    }
  }
  expect(found).toEqual([])
})

test("only an installation's users can read its files", async () => {
  const below = (part: string) => filesBelow(join(home.path, part))
  const files = [...(await below('store')), ...(await below('runtime'))]
  const keys = files.filter(({ path }) => path.endsWith('.key') || path.includes('/store/'))
  expect(keys.length).toBeGreaterThan(1)
  expect(keys.filter(({ mode }) => (mode & 0o007) !== 0)).toEqual([])
  expect((await stat(join(home.path, 'token-key.json'))).mode & 0o077).toBe(0)
  expect((await stat(join(home.path, 'audit.log'))).mode & 0o007).toBe(0)
})

test('every request for another tenant’s objects is answered as if they did not exist', async () => {
  const [task] = (await owner.call<{ id: string }[]>('GET', `/tasks?subject_id=${database.id}`)).body
  const unknownId = '00000000-0000-4000-8000-000000000000'
  const requests: [string, string, unknown?][] = [
    ['GET', '/databases/ID'],
    ['GET', '/databases/ID?user_type=admin'],
    ['PATCH', '/databases/ID', { display_name: 'stolen' }],
    ['PATCH', '/databases/ID', { ip_allowlist: { rules: [{ cidr: '0.0.0.0/0' }] } }],
    ['DELETE', '/databases/ID'],
    ['DELETE', '/databases/ID?force=true'],
    ['GET', '/databases/ID/branches'],
    ['GET', '/databases/ID/backups'],
    ['POST', '/databases/ID/backups', {}],
    ['GET', '/tasks/ID'],
  ]
  for (const [method, path, body] of requests) {
    const id = path.startsWith('/tasks') ? (task?.id ?? '') : database.id
    const refused = await otherTenant.call(method, path.replace('ID', id), body)
    const none = await otherTenant.call(method, path.replace('ID', unknownId), body)
    const where = `${method} ${path}`
    expect([where, refused.status]).toEqual([where, none.status])
    expect(refused.status, where).toBeGreaterThanOrEqual(400)
    expect(JSON.stringify(refused.body).replaceAll(id, '')).toBe(JSON.stringify(none.body).replaceAll(unknownId, ''))
  }
  const lists = await Promise.all([otherTenant.call('GET', '/databases'), otherTenant.call('GET', '/tasks')])
  expect(lists.map(list => list.body)).toEqual([[], []])
  expect((await owner.read(database.id)).body).toMatchObject({ status: 'available', display_name: null })
})

test('an idempotency key is scoped to its tenant', async () => {
  const key = { 'idempotency-key': 'shared-by-chance', prefer: 'wait=60' }
  const own = await owner.create({ name: 'keyed' }, key)
  const others = await otherTenant.create({ name: 'keyed' }, key)
  expect([own.status, others.status]).toEqual([200, 200])
  expect(own.body.id).not.toBe(others.body.id)
  expect((await owner.create({ name: 'other' }, key)).status).toBeGreaterThanOrEqual(400)
  await Promise.all([owner.remove(own.body.id), otherTenant.remove(others.body.id)])
})

test('an address in a header is not trusted and not recorded', async () => {
  const spoofed = { 'x-forwarded-for': '198.51.100.7', forwarded: 'for=198.51.100.7', 'x-real-ip': '198.51.100.7' }
  await owner.change(database.id, { options: ['spoofed'] }, spoofed)
  const audit = await readFile(join(home.path, 'audit.log'), 'utf8')
  expect(audit).toContain('127.0.0.1')
  expect(audit).not.toContain('198.51.100.7')
  // The response is not authoritative: it only helps to fill in a rule.
  expect((await owner.call('GET', '/client-ip', undefined, spoofed)).body).toEqual({ ip_address: '198.51.100.7' })
})

test('a request id cannot inject log lines', async () => {
  const long = 'x'.repeat(2_000)
  for (const wanted of [long, 'a b', '{"level":60}']) {
    const { headers } = await owner.call('GET', '/regions', undefined, { 'x-request-id': wanted })
    expect(headers.get('x-request-id')).not.toBe(wanted)
  }
  const audit = (await readFile(join(home.path, 'audit.log'), 'utf8')).trim().split('\n')
  for (const line of audit) expect(() => JSON.parse(line)).not.toThrow()
})

const raw = (text: string, timeoutMs = 5_000): Promise<string> =>
  new Promise(resolve => {
    const { hostname, port } = new URL(running.api)
    const socket = createConnection(Number(port), hostname, () => socket.write(text))
    let answer = ''
    const end = () => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('data', chunk => (answer += chunk))
    socket.on('close', end)
    socket.on('error', end)
    setTimeout(end, timeoutMs).unref()
  })

test.each([
  [
    'two Content-Length headers',
    'POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}',
  ],
  [
    'Content-Length and chunked encoding',
    'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['a header line of 1 MB', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(1 << 20)}\r\n\r\n`],
  ['a line feed alone', 'GET / HTTP/1.1\nHost: x\n\n'],
  ['bytes that are not HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
])('%s is refused and the connection closed', async (_, text) => {
  const answer = await raw(text)
  expect(answer).not.toMatch(/^HTTP\/1\.1 2/)
  expect(answer).not.toContain('    at ')
  expect((await owner.read(database.id)).status).toBe(200)
})

test('connections that never finish a request do not block others', async () => {
  const idle = Array.from({ length: 300 }, () => raw('GET /managed/v1/regions HTTP/1.1\r\nHost: x\r\nX-', 3_000))
  expect((await owner.read(database.id)).status).toBe(200)
  await Promise.all(idle)
})
