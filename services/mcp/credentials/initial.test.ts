import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isPassword } from '../../authentication/password.ts'
import { parseEntries } from './document.ts'
import { tokenForm, userForm } from './files.ts'
import { initialiseCredentials } from './initial.ts'
import { digestOf } from './secrets.ts'
import { type Folder, makeFolder, recordingLogger } from './testing/files.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

async function initialise(environment: Record<string, string>) {
  const { logger, lines } = recordingLogger()
  const { tokenFile, userFile } = folder
  await initialiseCredentials({ tokenFile, userFile, environment, logger, now: 0 })
  return lines.join('')
}

test('creates tokens and users once, as hashes', async () => {
  const long = 'a-token-of-the-operator-that-is-long-enough'
  const environment = { INIT_TOKENS: ` ${long}, abc123 ,`, INIT_USERS: 'alice:with:colons and spaces' }
  const log = await initialise(environment)
  expect(log).toContain('INIT_TOKENS: token 2 is short')
  const tokens = parseEntries(tokenForm, readFileSync(folder.tokenFile, 'utf8'))
  expect([...tokens.values()].map(({ hash }) => hash)).toEqual([long, 'abc123'].map(digestOf))
  const users = parseEntries(userForm, readFileSync(folder.userFile, 'utf8'))
  expect(await isPassword('with:colons and spaces', users.get('alice')?.password_hash)).toBe(true)
  for (const secret of [long, 'abc123', 'with:colons']) expect(log).not.toContain(secret)

  const again = await initialise({ INIT_TOKENS: 'another-token', INIT_USERS: 'bob:another password' })
  expect(again).toBe('')
  expect(parseEntries(tokenForm, readFileSync(folder.tokenFile, 'utf8'))).toEqual(tokens)
  expect(parseEntries(userForm, readFileSync(folder.userFile, 'utf8'))).toEqual(users)
})

test('does not change an existing file, even if it is empty or invalid', async () => {
  writeFileSync(folder.tokenFile, '')
  writeFileSync(folder.userFile, 'users: [')
  await initialise({ INIT_TOKENS: 'another-token', INIT_USERS: 'bob:another password' })
  expect([folder.tokenFile, folder.userFile].map(path => readFileSync(path, 'utf8'))).toEqual(['', 'users: ['])
})

test.each([
  [{ INIT_TOKENS: 'right,wrong token' }, 'INIT_TOKENS: token 2 must be letters, digits'],
  [{ INIT_USERS: 'alice' }, 'INIT_USERS: user 1 must be name:password'],
  [{ INIT_USERS: ':password-1' }, 'INIT_USERS: user 1 must be name:password'],
  [{ INIT_USERS: 'al ice:password-1' }, 'INIT_USERS: user 1: the name must be'],
  [{ INIT_USERS: 'alice:short' }, 'INIT_USERS: user 1: the password must be 8 to 1024 bytes long'],
])('%j is refused, without quoting it', async (environment, message) => {
  const thrown = await initialise(environment).catch((error: unknown) => String(error))
  expect(thrown).toContain(message)
  for (const secret of ['wrong token', 'password-1', ':short']) expect(thrown).not.toContain(secret)
})
