import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { quickHash } from '../../authentication/testing/passwords.ts'
import { until } from '../../testing/client.ts'
import { addToken, addUser, setUserEnabled, updateUser } from './administration.ts'
import { parseEntries } from './document.ts'
import { tokenForm, userForm } from './files.ts'
import { createAuthentication, type RunningAuthentication } from './index.ts'
import { digestOf } from './secrets.ts'
import { type Folder, makeFolder, recordingLogger, settingsOf } from './testing/files.ts'

let folder: Folder
let running: RunningAuthentication | undefined
let lines: string[]

beforeEach(() => {
  folder = makeFolder()
})
afterEach(async () => {
  await running?.stop()
  running = undefined
  folder.remove()
})

async function start(change: Parameters<typeof settingsOf>[1] = {}, now: () => number = Date.now) {
  const recording = recordingLogger()
  lines = recording.lines
  running = await createAuthentication({ settings: settingsOf(folder, change), logger: recording.logger, now })
  return running
}

const tokenText = (...tokens: string[]) =>
  `tokens:\n${tokens.map((token, index) => `  t${index}: {hash: ${digestOf(token)}}\n`).join('')}`
const writeUsers = async (users: Record<string, string>, extra = '') => {
  const entries = Object.entries(users).map(
    async ([name, password]) => `  ${name}: {password_hash: "${await quickHash(password)}"${extra}}\n`,
  )
  writeFileSync(folder.userFile, `users:\n${(await Promise.all(entries)).join('')}`)
}
const address = '192.0.2.7'
let addresses = 0
/** A new address for each call, because `expect.poll` repeats its requests. */
const anyAddress = () => `198.51.100.${++addresses % 256}`
const isKnown = async (token: string, from = address) =>
  (await running?.authenticate(`Bearer ${token}`, from))?.kind === 'caller'
const userEntry = (name: string) => parseEntries(userForm, readFileSync(folder.userFile, 'utf8')).get(name)

async function sessionOf(username: string, password: string): Promise<string> {
  const login = await running?.login(username, password, address)
  if (login?.kind !== 'session') throw new Error(`${username} is ${login?.kind}`)
  return login.token
}

test('an API token authenticates its own caller, with its database, until it expires', async () => {
  const free = await addToken(folder.tokenFile, { note: 'n', lifetimeMs: undefined, database: undefined }, 0)
  const bound = await addToken(folder.tokenFile, { note: undefined, lifetimeMs: 1_000, database: 'sales' }, 10_000)
  let now = 10_500
  const { authenticate } = await start({}, () => now)
  expect(await authenticate(`Bearer ${free.token}`, address)).toEqual({
    kind: 'caller',
    caller: {
      kind: 'token',
      principal: `token:${free.id}`,
      username: undefined,
      databases: undefined,
      scopes: new Set(['mcp:read', 'mcp:write']),
      session: `token:${free.id}`,
    },
  })
  expect(await authenticate(`bearer ${bound.token}`, address)).toMatchObject({ caller: { databases: ['sales'] } })
  now = 11_000
  expect(await authenticate(`Bearer ${bound.token}`, address)).toEqual({ kind: 'refused', isMissing: false })
  expect(readFileSync(folder.tokenFile, 'utf8')).not.toContain(free.token)
})

test('removes an expired token from the file', async () => {
  const old = await addToken(folder.tokenFile, { note: undefined, lifetimeMs: 1, database: undefined }, 1)
  const live = await addToken(folder.tokenFile, { note: undefined, lifetimeMs: 1_000, database: undefined }, 1)
  await start({}, () => 500)
  expect([...parseEntries(tokenForm, readFileSync(folder.tokenFile, 'utf8')).keys()]).toEqual([live.id])
  expect(old.id).not.toBe(live.id)
  expect(lines.join('')).toContain('[AUTH] expired tokens have been removed')
})

test.each([
  [undefined, true],
  ['', false],
  ['Bearer', false],
  ['Bearer ', false],
  ['Basic dXNlcjpwYXNz', false],
  ['right-token', false],
  ['Bearer right-token right-token', false],
  ['Bearer right-token,', false],
  ['Bearer wrong-token', false],
  ['Bearer right-tokem', false],
  [`Bearer ${digestOf('right-token')}`, false],
])('%j is refused', async (header, isMissing) => {
  writeFileSync(folder.tokenFile, tokenText('right-token'))
  const { authenticate } = await start()
  expect(await isKnown('right-token')).toBe(true)
  expect(await authenticate(header, address)).toEqual({ kind: 'refused', isMissing })
})

test('only a correct header authenticates a caller', async () => {
  writeFileSync(folder.tokenFile, tokenText('right-token'))
  await writeUsers({ alice: 'secret password' })
  const { authenticate } = await start({ rateLimitMaximumAttempts: 100_000 })
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        fc.string().map(text => `Bearer ${text}`),
      ),
      async header => {
        fc.pre(!/^bearer +right-token *$/i.test(header))
        expect((await authenticate(header, address)).kind).toBe('refused')
      },
    ),
    { numRuns: 300 },
  )
})

test('limits wrong tokens by address, and still accepts a right token', async () => {
  writeFileSync(folder.tokenFile, tokenText('right-token'))
  let now = 0
  const { authenticate } = await start({ rateLimitMaximumAttempts: 2, rateLimitWindowMinutes: 1 }, () => now)
  for (let left = 200; left > 0; left--) {
    expect(await authenticate('Bearer wrong', address)).toEqual({ kind: 'refused', isMissing: false })
  }
  expect(await authenticate('Bearer wrong', address)).toEqual({ kind: 'limited', retryAfterSeconds: 60 })
  expect((await authenticate('Bearer wrong', '192.0.2.8')).kind).toBe('refused')
  expect(await authenticate(undefined, address)).toEqual({ kind: 'refused', isMissing: true })
  expect(await isKnown('right-token')).toBe(true)
  now = 60_000
  expect((await authenticate('Bearer wrong', address)).kind).toBe('refused')
})

test("a login starts a session with its user's rights", async () => {
  await writeUsers({ alice: 'secret password' }, ', available_databases: [sales, stock]')
  const { authenticate } = await start()
  const [one, two] = [await sessionOf('alice', 'secret password'), await sessionOf('alice', 'secret password')]
  const first = await authenticate(`Bearer ${one}`, address)
  expect(first).toMatchObject({
    caller: { kind: 'user', principal: 'user:alice', username: 'alice', databases: ['sales', 'stock'] },
  })
  const second = await authenticate(`Bearer ${two}`, address)
  if (first.kind !== 'caller' || second.kind !== 'caller') throw new Error('refused')
  expect(first.caller.session).not.toBe(second.caller.session)
  expect(first.caller.session).not.toContain(one)
})

test('allows ten wrong logins from an address in total, also concurrently', async () => {
  await writeUsers({ alice: 'secret password' })
  const { login } = await start()
  const kinds = await Promise.all(
    Array.from({ length: 12 }, (_, index) => login(index % 2 === 0 ? 'alice' : 'nobody', 'wrong', address)),
  )
  expect(kinds.filter(({ kind }) => kind === 'refused')).toHaveLength(10)
  expect(kinds.filter(({ kind }) => kind === 'limited')).toHaveLength(2)
  expect((await login('alice', 'secret password', address)).kind).toBe('limited')
  expect((await login('alice', 'secret password', '192.0.2.8')).kind).toBe('session')
})

test('does not limit right logins', async () => {
  await writeUsers({ alice: 'secret password' })
  const { login } = await start({ rateLimitMaximumAttempts: 1 })
  for (let left = 4; left > 0; left--) expect((await login('alice', 'secret password', address)).kind).toBe('session')
})

test('a wrong name takes as long as a wrong password', async () => {
  await addUser(folder.userFile, 'alice', { password: 'secret password' }, 0)
  const { login } = await start({ rateLimitMaximumAttempts: 1_000, maximumFailedAttemptsBeforeLockout: 999 })
  const timeOf = async (username: string) => {
    const began = performance.now()
    expect((await login(username, 'wrong password', address)).kind).toBe('refused')
    return performance.now() - began
  }
  const times: Record<'alice' | 'nobody', number[]> = { alice: [], nobody: [] }
  for (let round = 0; round < 2; round++) {
    times.alice.push(await timeOf('alice'))
    times.nobody.push(await timeOf('nobody'))
  }
  // Compares the fastest run of each. Load on the machine can only make a run slower.
  const ratio = Math.min(...times.alice) / Math.min(...times.nobody)
  expect(ratio).toBeGreaterThan(0.25)
  expect(ratio).toBeLessThan(4)
})

test('too many wrong passwords disable an account, also in the file, until it is enabled', async () => {
  await writeUsers({ alice: 'secret password', bob: 'other password' })
  const { login } = await start({ maximumFailedAttemptsBeforeLockout: 3 })
  expect((await login('alice', 'wrong', '192.0.2.1')).kind).toBe('refused')
  expect((await login('alice', 'secret password', '192.0.2.1')).kind).toBe('session')
  for (const last of [1, 2, 3]) expect((await login('alice', 'wrong', `192.0.2.${last}`)).kind).toBe('refused')
  expect((await login('alice', 'secret password', '192.0.2.4')).kind).toBe('disabled')
  expect((await login('alice', 'wrong', '192.0.2.4')).kind).toBe('disabled')
  expect((await login('bob', 'other password', '192.0.2.4')).kind).toBe('session')
  await until(() => userEntry('alice')?.enabled === false)
  expect(userEntry('alice')?.failed_attempts).toBe(3)
  await setUserEnabled(folder.userFile, 'alice', true)
  await until(async () => (await login('alice', 'secret password', anyAddress())).kind === 'session')
  expect(userEntry('alice')).toMatchObject({ enabled: true, failed_attempts: 0 })
})

test('concurrent guesses disable an account before the right password is accepted', async () => {
  await writeUsers({ alice: 'secret password' })
  const { login } = await start({ maximumFailedAttemptsBeforeLockout: 3 })
  const guesses = ['a', 'b', 'c', 'd', 'e', 'f', 'secret password'].map((guess, index) =>
    login('alice', guess, `192.0.2.${index}`),
  )
  expect((await Promise.all(guesses)).at(-1)?.kind).toBe('disabled')
})

test('failures before a restart still count after the restart', async () => {
  await writeUsers({ alice: 'secret password' })
  const first = await start({ maximumFailedAttemptsBeforeLockout: 2 })
  await first.login('alice', 'wrong', address)
  await first.stop()
  const second = await start({ maximumFailedAttemptsBeforeLockout: 2 })
  await second.login('alice', 'wrong', address)
  expect((await second.login('alice', 'secret password', address)).kind).toBe('disabled')
})

test('sessions survive reloads, new passwords and the deletion of their user', async () => {
  await writeUsers({ alice: 'secret password' }, ', available_databases: [sales]')
  await start()
  const token = await sessionOf('alice', 'secret password')
  await updateUser(folder.userFile, 'alice', { password: 'a new password', databases: ['stock'] })
  await until(async () => (await running?.login('alice', 'a new password', anyAddress()))?.kind === 'session')
  expect(await running?.authenticate(`Bearer ${token}`, address)).toMatchObject({ caller: { databases: ['stock'] } })
  writeFileSync(folder.userFile, 'users: {}\n')
  await until(async () => (await running?.login('alice', 'a new password', anyAddress()))?.kind === 'refused')
  expect(await running?.authenticate(`Bearer ${token}`, address)).toMatchObject({ caller: { databases: ['sales'] } })
})

const ways: Record<string, (text: string) => void> = {
  'written in place': text => writeFileSync(folder.tokenFile, text),
  'replaced by a rename': text => {
    writeFileSync(join(folder.path, 'new'), text)
    renameSync(join(folder.path, 'new'), folder.tokenFile)
  },
  'removed and written anew': text => {
    rmSync(folder.tokenFile)
    writeFileSync(folder.tokenFile, text)
  },
  'written in two pieces': text => {
    writeFileSync(folder.tokenFile, text.slice(0, 20))
    appendFileSync(folder.tokenFile, text.slice(20))
  },
}

test.each(Object.keys(ways))('a file that is %s applies within about a tenth of a second', async way => {
  writeFileSync(folder.tokenFile, tokenText('one'))
  await start()
  for (const [before, after] of [
    ['one', 'two'],
    ['two', 'three'],
  ] as const) {
    ways[way]?.(tokenText(after))
    const began = performance.now()
    await until(() => isKnown(after, anyAddress()))
    expect(performance.now() - began).toBeLessThan(900)
    expect(await isKnown(before)).toBe(false)
  }
  expect(lines.filter(line => line.includes('[AUTH]') && line.includes('has been read again'))).toHaveLength(2)
})

test('reloads a mounted Secret when its links change', async () => {
  const version = (name: string, text: string) => {
    mkdirSync(join(folder.path, name))
    writeFileSync(join(folder.path, name, 'tokens.yaml'), text)
    symlinkSync(name, join(folder.path, '..data_tmp'))
    renameSync(join(folder.path, '..data_tmp'), join(folder.path, '..data'))
  }
  version('..2026_01', tokenText('one'))
  symlinkSync(join('..data', 'tokens.yaml'), folder.tokenFile)
  await start()
  expect(await isKnown('one')).toBe(true)
  for (const [name, token] of [
    ['..2026_02', 'two'],
    ['..2026_03', 'three'],
  ] as const) {
    version(name, tokenText(token))
    const began = performance.now()
    await until(() => isKnown(token, anyAddress()))
    expect(performance.now() - began).toBeLessThan(900)
  }
})

test('keeps the previous entries and logs an error if a file becomes invalid or missing', async () => {
  writeFileSync(folder.tokenFile, tokenText('one'))
  await start()
  const errors = () => lines.filter(line => line.includes('"level":50') && line.includes('[AUTH]'))
  writeFileSync(folder.tokenFile, 'tokens: [')
  await until(() => errors().length === 1)
  expect(await isKnown('one')).toBe(true)
  writeFileSync(folder.tokenFile, '')
  await until(() => errors().length === 2)
  expect(await isKnown('one')).toBe(true)
  rmSync(folder.tokenFile)
  await until(() => errors().length === 3)
  expect(errors()[2]).toContain('no longer exists; the previous entries still apply')
  expect(await isKnown('one')).toBe(true)
  writeFileSync(folder.tokenFile, tokenText('two'))
  await until(() => isKnown('two'))
  expect(await isKnown('one')).toBe(false)
})

test('users can still log in after their file becomes invalid', async () => {
  await writeUsers({ alice: 'secret password' })
  const { login } = await start()
  for (const text of ['users: [', 'users: {alice: {}}', '']) {
    const before = lines.length
    writeFileSync(folder.userFile, text)
    await until(() => lines.slice(before).some(line => line.includes('the previous entries still apply')))
    expect((await login('alice', 'secret password', anyAddress())).kind).toBe('session')
  }
})

test('a file that is created later applies, also if its folder is created later', async () => {
  const inner = { ...folder, tokenFile: join(folder.path, 'later', 'tokens.yaml') }
  const recording = recordingLogger()
  running = await createAuthentication({ settings: settingsOf(inner), logger: recording.logger })
  expect(recording.lines.join('')).toContain('does not exist: no tokens are known until it does')
  mkdirSync(join(folder.path, 'later'))
  writeFileSync(inner.tokenFile, tokenText('one'))
  await until(() => isKnown('one', anyAddress()))
})

test('an invalid file prevents the start', async () => {
  writeFileSync(folder.tokenFile, tokenText('one'))
  writeFileSync(folder.userFile, 'users: {alice: {}}')
  await expect(start()).rejects.toThrow(`${folder.userFile} users.alice.password_hash`)
})

test('other files in the folder are ignored', async () => {
  writeFileSync(folder.tokenFile, tokenText('one'))
  await start()
  const before = lines.length
  const { cpuUsage } = process
  const began = cpuUsage()
  for (let round = 0; round < 50; round++) {
    appendFileSync(join(folder.path, 'service.log'), 'a line\n')
    await pause(5)
  }
  const { user, system } = cpuUsage(began)
  expect(lines).toHaveLength(before)
  expect(user + system).toBeLessThan(1_000_000)
})

test('logs a warning for a file that other users can read', async () => {
  writeFileSync(folder.tokenFile, tokenText('one'), { mode: 0o644 })
  await start()
  expect(lines.filter(line => line.includes('may be readable by others'))).toHaveLength(1)
})

test('the log contains no secret', async () => {
  const { token } = await addToken(folder.tokenFile, { note: undefined, lifetimeMs: undefined, database: undefined }, 0)
  await writeUsers({ alice: 'secret password' })
  const { authenticate, login } = await start({ maximumFailedAttemptsBeforeLockout: 2 })
  const session = await sessionOf('alice', 'secret password')
  await authenticate(`Bearer ${token}x`, address)
  await login('alice', 'guessed-password', address)
  await login('alice', 'guessed-password', address)
  await login('x'.repeat(1_000), 'guessed-password', address)
  await running?.stop()
  const all = lines.join('')
  for (const secret of [token, session, 'secret password', 'guessed-password', 'scrypt', digestOf(token)])
    expect(all).not.toContain(secret)
  expect(all).toContain('[AUTH] a login has failed')
  expect(all).not.toContain('x'.repeat(129))
})
