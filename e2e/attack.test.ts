/** A hostile tenant and a hostile neighbour, against an installation as its user runs it. */

import { readdir, readFile, stat } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ApiClient, type Connection, createApiClient, type Database, openToThisMachine, query } from './client.ts'
import { createHome, type Home, processTree, type Running } from './process.ts'

let home: Home
let running: Running
let owner: ApiClient
let stranger: ApiClient
let database: Database
let secrets: string[]
let output = ''

const tokenOf = async (tenant: string) => (await home.command(['token', '--tenant', tenant])).stdout.trim()
const userTypes = ['application', 'admin', 'application_read_only']

beforeAll(async () => {
  home = await createHome()
  running = await home.run()
  const [ownToken, strangeToken] = [await tokenOf('owner'), await tokenOf('stranger')]
  running.process.stdout?.on('data', chunk => (output += chunk))
  running.process.stderr?.on('data', chunk => (output += chunk))
  owner = createApiClient(running.api, ownToken)
  stranger = createApiClient(running.api, strangeToken)
  database = (await owner.create({ name: 'target', ip_allowlist: openToThisMachine })).body
  const connections = await Promise.all(userTypes.map(type => owner.connection(database.id, type)))
  for (const connection of connections) await query(connection, 'SELECT 1')
  secrets = [...connections.map(({ password }: Connection) => password), ownToken, strangeToken]
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

test('no password and no token stands in a log, a file, a command line or an environment', async () => {
  const found: string[] = []
  const look = (where: string, text: string | Buffer) => {
    if (secrets.some(secret => text.includes(secret))) found.push(where)
  }
  look('output', output)
  for (const { path } of await filesBelow(home.path)) look(path, await readFile(path).catch(() => ''))
  for (const pid of await processTree(running.process.pid ?? 0)) {
    for (const file of ['cmdline', 'environ']) {
      look(`${pid}/${file}`, await readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => ''))
    }
  }
  expect(found).toEqual([])
})

test('nobody but its users can read the files of an installation', async () => {
  const below = (part: string) => filesBelow(join(home.path, part))
  const files = [...(await below('store')), ...(await below('runtime'))]
  const keys = files.filter(({ path }) => path.endsWith('.key') || path.includes('/store/'))
  expect(keys.length).toBeGreaterThan(1)
  expect(keys.filter(({ mode }) => (mode & 0o007) !== 0)).toEqual([])
  expect((await stat(join(home.path, 'token-key.json'))).mode & 0o077).toBe(0)
  expect((await stat(join(home.path, 'audit.log'))).mode & 0o007).toBe(0)
})

test('what is another tenant’s is answered like what is nobody’s, whatever is asked', async () => {
  const [mine] = (await owner.call<{ id: string }[]>('GET', `/tasks?subject_id=${database.id}`)).body
  const nobody = '00000000-0000-4000-8000-000000000000'
  const asked: [string, string, unknown?][] = [
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
  for (const [method, path, body] of asked) {
    const id = path.startsWith('/tasks') ? (mine?.id ?? '') : database.id
    const theirs = await stranger.call(method, path.replace('ID', id), body)
    const none = await stranger.call(method, path.replace('ID', nobody), body)
    const where = `${method} ${path}`
    expect([where, theirs.status]).toEqual([where, none.status])
    expect(theirs.status, where).toBeGreaterThanOrEqual(400)
    expect(JSON.stringify(theirs.body).replaceAll(id, '')).toBe(JSON.stringify(none.body).replaceAll(nobody, ''))
  }
  const lists = await Promise.all([stranger.call('GET', '/databases'), stranger.call('GET', '/tasks')])
  expect(lists.map(list => list.body)).toEqual([[], []])
  expect((await owner.read(database.id)).body).toMatchObject({ status: 'available', display_name: null })
})

test('an idempotency key is the tenant’s own', async () => {
  const key = { 'idempotency-key': 'shared-by-chance', prefer: 'wait=60' }
  const ours = await owner.create({ name: 'keyed' }, key)
  const theirs = await stranger.create({ name: 'keyed' }, key)
  expect([ours.status, theirs.status]).toEqual([200, 200])
  expect(ours.body.id).not.toBe(theirs.body.id)
  expect((await owner.create({ name: 'other' }, key)).status).toBeGreaterThanOrEqual(400)
  await Promise.all([owner.remove(ours.body.id), stranger.remove(theirs.body.id)])
})

test('what a header says of an address decides nothing and is not put on record', async () => {
  const spoofed = { 'x-forwarded-for': '198.51.100.7', forwarded: 'for=198.51.100.7', 'x-real-ip': '198.51.100.7' }
  await owner.change(database.id, { options: ['spoofed'] }, spoofed)
  const audit = await readFile(join(home.path, 'audit.log'), 'utf8')
  expect(audit).toContain('127.0.0.1')
  expect(audit).not.toContain('198.51.100.7')
  // Not authoritative: a help for filling in a rule.
  expect((await owner.call('GET', '/client-ip', undefined, spoofed)).body).toEqual({ ip_address: '198.51.100.7' })
})

test('a request id cannot write into the log', async () => {
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
  ['two lengths', 'POST /managed/v1/databases HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}'],
  [
    'a length and chunks',
    'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  ['a header line of 1 MB', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(1 << 20)}\r\n\r\n`],
  ['a line feed alone', 'GET / HTTP/1.1\nHost: x\n\n'],
  ['no HTTP at all', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
])('%s is refused and the connection closed', async (_, text) => {
  const answer = await raw(text)
  expect(answer).not.toMatch(/^HTTP\/1\.1 2/)
  expect(answer).not.toContain('    at ')
  expect((await owner.read(database.id)).status).toBe(200)
})

test('connections that never finish a request do not keep others out', async () => {
  const idle = Array.from({ length: 300 }, () => raw('GET /managed/v1/regions HTTP/1.1\r\nHost: x\r\nX-', 3_000))
  expect((await owner.read(database.id)).status).toBe(200)
  await Promise.all(idle)
})
