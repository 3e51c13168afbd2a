import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Folder, makeFolder } from '../../services/mcp/credentials/testing/files.ts'
import { sendRequest, until } from '../../services/testing/client.ts'
import { UsageError } from '../command.ts'
import mcp from './mcp.ts'

let folder: Folder
let files: string[]
const children: ChildProcess[] = []

beforeEach(() => {
  folder = makeFolder()
  files = ['-token-file', folder.tokenFile, '-user-file', folder.userFile]
})
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }
  folder.remove()
})

/** Runs an action in this process. */
async function run(...args: string[]): Promise<{ out: string; errors: string }> {
  const out = vi.spyOn(console, 'log').mockImplementation(() => {})
  const errors = vi.spyOn(console, 'error').mockImplementation(() => {})
  try {
    expect(await mcp.run([...args, ...files])).toBe(0)
    const lines = (calls: unknown[][]) => calls.map(call => call.join(' ')).join('\n')
    return { out: lines(out.mock.calls), errors: lines(errors.mock.calls) }
  } finally {
    out.mockRestore()
    errors.mockRestore()
  }
}

const program = join(import.meta.dirname, '..', 'espalier.mjs')
const environment = () => ({
  PATH: process.env.PATH ?? '',
  HOME: folder.path,
  ESPALIER_DATA_DIR: join(folder.path, 'data'),
})

function start(args: string[], variables: Record<string, string> = {}): ChildProcess & { errors: () => string } {
  const child = spawn(process.execPath, [program, 'mcp', ...args], {
    env: { ...environment(), ...variables },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  children.push(child)
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', text => {
    errors += text
  })
  return Object.assign(child, { errors: () => errors })
}

test('a token is created, printed once, listed and removed', async () => {
  const { out: token, errors } = await run(
    '-add-token',
    '-token-note',
    'for the \u001bjob',
    '-token-expiry',
    '30d',
    '-token-database',
    'sales',
  )
  expect(errors).toContain('No database is configured here, so the name "sales" is not checked.')
  expect(Buffer.from(token, 'base64url')).toHaveLength(32)
  const id = /^(\S+) expires at /m.exec(errors)?.[1] ?? ''
  expect(readFileSync(folder.tokenFile, 'utf8')).not.toContain(token)
  expect(statSync(folder.tokenFile).mode & 0o777).toBe(0o600)
  const { out: listed } = await run('-list-tokens')
  expect(listed).toMatch(new RegExp(`^${id} .* sales +for the \\?job$`, 'm'))
  expect(listed).not.toContain(token)
  const second = await run('-add-token', '-token-expiry', 'never')
  expect(second.errors).toContain('never expires')
  await run('-remove-token', id)
  const hash = /hash: ([0-9a-f]{64})/.exec(readFileSync(folder.tokenFile, 'utf8'))?.[1] ?? ''
  await expect(run('-remove-token', hash.slice(0, 7))).rejects.toThrow('has no token with this id')
  await run('-remove-token', hash.slice(0, 8).toUpperCase())
  expect((await run('-list-tokens')).out).toBe('no tokens')
})

test('a token for an unknown database is refused, and the error contains the most similar name', async () => {
  const config = join(folder.path, 'mcp.yaml')
  writeFileSync(config, 'databases: [{name: sales, host: h}, {name: stock, host: h}]\n')
  const add = (name: string) => run('-add-token', '-config', config, '-token-database', name)
  await expect(add('sale')).rejects.toThrow('must name a configured database; did you mean sales?')
  expect((await add('stock')).errors).not.toContain('not checked')
  writeFileSync(config, 'databases: [{name: sales, port: x}]\n')
  await expect(add('sales')).rejects.toThrow('databases[0].port')
})

test('a user is added, changed, disabled, enabled, listed and deleted', async () => {
  const alice = ['-username', 'alice']
  const { errors } = await run(
    '-add-user',
    ...alice,
    '-password',
    'first password',
    '-user-note',
    'n',
    '-user-databases',
    'a, b',
  )
  expect(errors).toContain('password on the command line')
  const row = async () => (await run('-list-users')).out.split('\n').at(-1)?.split(/ {2,}/)
  expect(await row()).toEqual(['alice', 'enabled', '0', 'a,b', 'n'])
  const before = readFileSync(folder.userFile, 'utf8')
  await run('-update-user', ...alice, '-user-databases', '*')
  expect(await row()).toEqual(['alice', 'enabled', '0', '(all)', 'n'])
  const hashIn = (text: string) => /password_hash: (\S+)/.exec(text)?.[1]
  expect(hashIn(readFileSync(folder.userFile, 'utf8'))).toBe(hashIn(before))
  await run('-update-user', ...alice, '-password', 'other password')
  expect(hashIn(readFileSync(folder.userFile, 'utf8'))).not.toBe(hashIn(before))
  await run('-disable-user', ...alice)
  expect((await row())?.[1]).toBe('disabled')
  await run('-enable-user', ...alice)
  expect((await row())?.[1]).toBe('enabled')
  await expect(run('-add-user', ...alice, '-password', 'first password')).rejects.toThrow('has a user alice already')
  await run('-delete-user', ...alice)
  expect((await run('-list-users')).out).toBe('no users')
})

test.each<[string[], string]>([
  [['-add-token', '-list-tokens'], '-add-token and -list-tokens cannot be combined'],
  [['-add-token', '-username', 'x'], '-username cannot be used with -add-token'],
  [['-add-token', '-http'], '-http cannot be used with -add-token'],
  [['-http', '-username', 'x'], '-username requires an action'],
  [['-add-token', '-token-expiry', '30'], '-token-expiry must be like 12h'],
  [['-add-token', '-token-database', ''], '-token-database must not be empty'],
  [['-add-user'], '-username is missing'],
  [['-add-tokn'], 'did you mean -add-token?'],
  [['-remove-token'], '-remove-token requires a value'],
])('%j is wrong usage', async (args, message) => {
  const thrown = await mcp.run(args).catch((error: unknown) => error)
  expect(thrown).toBeInstanceOf(UsageError)
  expect(thrown).toHaveProperty('message', expect.stringContaining(message))
})

test.each<[string[], string]>([
  [['-add-user', '-username', 'a b', '-password', 'long enough'], 'the user name must be'],
  [['-add-user', '-username', 'alice', '-password', 'short'], 'the password must be 8 to 1024 bytes long'],
  [['-update-user', '-username', 'nobody', '-password', 'long enough'], 'has no user nobody'],
  [['-delete-user', '-username', 'nobody'], 'has no user nobody'],
  [['-enable-user', '-username', 'nobody'], 'has no user nobody'],
  [
    ['-list-tokens', '-config', '/nonexistent.yaml'],
    'the configuration file /nonexistent.yaml cannot be read (ENOENT)',
  ],
])('%j fails', async (args, message) => {
  await expect(run(...args)).rejects.toThrow(message)
})

test('a password is read from standard input, and the error of an invalid file is one line', async () => {
  const child = start(['-add-user', '-username', 'alice', ...files])
  child.stdin?.end('from a pipe\n')
  const [code] = await once(child, 'exit')
  expect([code, child.errors()]).toEqual([0, 'alice is added.\n'])
  writeFileSync(folder.userFile, 'users: [')
  const failing = start(['-list-users', ...files])
  await once(failing, 'exit')
  expect(failing.exitCode).toBe(1)
  expect(failing.errors()).toBe(`espalier mcp: ${folder.userFile} is not YAML (BAD_INDENT, line 1, column 9)\n`)
})

test('over HTTP, the server creates credentials, accepts logins and new tokens, and reloads databases', async () => {
  const config = join(folder.path, 'mcp.yaml')
  writeFileSync(config, 'databases: [{name: one, host: 127.0.0.1}]\n')
  const initial = { INIT_TOKENS: 'an-initial-token-of-some-length-1', INIT_USERS: 'alice:secret:password' }
  const child = start(['-config', config, '-http', '-addr', '127.0.0.1:0', ...files], initial)
  const [line] = await once(createInterface({ input: child.stdout ?? process.stdin }), 'line')
  const port = Number(/^espalier mcp listens on http:\/\/127\.0\.0\.1:(\d+)$/.exec(line)?.[1])
  const get = async (path: string, token: string) =>
    await sendRequest(port, path, { headers: { Authorization: `Bearer ${token}` } })
  const databases = async (token: string) => JSON.parse((await get('/api/databases', token)).text)
  expect((await databases(initial.INIT_TOKENS)).current).toBe('one')
  const called = await sendRequest(port, '/mcp/v1', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'authenticate_user', arguments: { username: 'alice', password: 'secret:password' } },
    }),
  })
  const [content] = JSON.parse(called.text).result.content
  const { session_token: session } = JSON.parse(content.text)
  expect(JSON.parse((await get('/api/user/info', session)).text)).toEqual({ authenticated: true, username: 'alice' })
  expect((await get('/api/conversations', session)).status).toBe(200)

  const { out: added } = await run('-add-token')
  await until(async () => (await get('/api/user/info', added)).status === 200)
  const hint = async () => {
    const listed = await sendRequest(port, '/mcp/v1', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${added}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    const { tools } = JSON.parse(listed.text).result
    return tools.find(({ name }: { name: string }) => name === 'query_database').annotations.readOnlyHint
  }
  expect(await hint()).toBe(true)
  const two = 'databases: [{name: one, host: 127.0.0.1}, {name: two, host: 127.0.0.1, allow_writes: true}]\n'
  writeFileSync(config, two)
  child.kill('SIGHUP')
  await until(async () => (await databases(session)).databases.length === 2)
  expect(await hint()).toBe(false)
  writeFileSync(config, 'databases: [')
  child.kill('SIGHUP')
  await until(() => child.errors().includes('the databases are unchanged'))
  expect((await databases(session)).databases).toHaveLength(2)

  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  expect(code).toBe(0)
  for (const secret of [initial.INIT_TOKENS, 'secret:password', session, added])
    expect(child.errors()).not.toContain(secret)
  const tokens = readFileSync(folder.tokenFile, 'utf8')
  const again = start(['-config', config, '-http', '-addr', '127.0.0.1:0', ...files], { INIT_TOKENS: 'another-token' })
  expect((await once(again, 'exit'))[0]).toBe(1)
  expect(readFileSync(folder.tokenFile, 'utf8')).toBe(tokens)
})

test('over stdio, the output has only responses, and the server exits when the input ends', async () => {
  const child = start(['-db-host', '127.0.0.1'])
  const lines: string[] = []
  createInterface({ input: child.stdout ?? process.stdin }).on('line', line => lines.push(line))
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
  await until(() => lines.length === 1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ id: 1, result: { protocolVersion: '2025-11-25' } })
  child.stdin?.end()
  expect((await once(child, 'exit'))[0]).toBe(0)
  expect(lines).toHaveLength(1)
})

test('all problems of the configuration are reported', async () => {
  const child = start(['-http', '-addr', 'nowhere'], { ESPALIER_DB_PORT: 'x', PGHOST: 'h' })
  await once(child, 'exit')
  expect(child.exitCode).toBe(1)
  expect(child.errors()).toContain('http.address (command line, -addr) must be an address')
  expect(child.errors()).toContain('databases[0].port (environment, ESPALIER_DB_PORT) must be')
})
