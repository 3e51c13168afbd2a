import { execFile } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addToken } from './administration.ts'
import { parseEntries } from './document.ts'
import { tokenForm } from './files.ts'
import { type Folder, makeFolder } from './testing/files.ts'

let folder: Folder
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

const fresh = { note: undefined, lifetimeMs: undefined, database: undefined }
const entriesIn = (path: string) => parseEntries(tokenForm, readFileSync(path, 'utf8'))

test('an error names a missing folder', async () => {
  const missing = join(folder.path, 'missing')
  await expect(addToken(join(missing, 'tokens.yaml'), fresh, Date.now())).rejects.toThrow(
    `there is no folder ${missing}`,
  )
})

test('loses none of many concurrent changes by several processes', async () => {
  const script = `
    import { addToken } from '${join(import.meta.dirname, 'administration.ts')}'
    for (let left = 6; left > 0; left--)
      await addToken(process.argv[1], { note: undefined, lifetimeMs: undefined, database: undefined }, Date.now())`
  const run = () =>
    promisify(execFile)(process.execPath, ['--no-warnings', '--input-type=module', '-e', script, folder.tokenFile])
  const own = Array.from({ length: 6 }, () => addToken(folder.tokenFile, fresh, Date.now()))
  await Promise.all([run(), run(), ...own])
  expect(entriesIn(folder.tokenFile).size).toBe(18)
  expect(readdirSync(folder.path).sort()).toEqual(['.tokens.yaml.lock', 'tokens.yaml'])
})

test('only the owner can read written files, even if other users could before', async () => {
  writeFileSync(folder.tokenFile, 'tokens: {}\n')
  chmodSync(folder.tokenFile, 0o644)
  await addToken(folder.tokenFile, fresh, Date.now())
  expect(statSync(folder.tokenFile).mode & 0o777).toBe(0o600)
})

test('files written by root belong to the owner of the folder or the file', async () => {
  const isRoot = process.getuid?.() === 0
  if (isRoot) chownSync(folder.path, 4711, 4712)
  const { uid, gid } = statSync(folder.path)
  await addToken(folder.tokenFile, fresh, Date.now())
  expect(statSync(folder.tokenFile)).toMatchObject({ uid, gid })
  expect(statSync(join(folder.path, '.tokens.yaml.lock'))).toMatchObject({ uid, gid })
  if (isRoot) chownSync(folder.tokenFile, 4713, 4714)
  const { uid: owner } = statSync(folder.tokenFile)
  await addToken(folder.tokenFile, fresh, Date.now())
  expect(statSync(folder.tokenFile).uid).toBe(owner)
})

test('keeps a link, and writes its target', async () => {
  const link = join(folder.path, 'link.yaml')
  writeFileSync(folder.tokenFile, 'tokens: {}\n')
  symlinkSync(folder.tokenFile, link)
  await addToken(link, fresh, Date.now())
  expect(lstatSync(link).isSymbolicLink()).toBe(true)
  expect(entriesIn(folder.tokenFile).size).toBe(1)
})

test('does not overwrite an invalid file', async () => {
  writeFileSync(folder.tokenFile, 'tokens: [')
  await expect(addToken(folder.tokenFile, fresh, Date.now())).rejects.toThrow(`${folder.tokenFile} is not YAML`)
  expect(readFileSync(folder.tokenFile, 'utf8')).toBe('tokens: [')
})

test('a missing folder is named', async () => {
  const path = join(folder.path, 'none', 'tokens.yaml')
  await expect(addToken(path, fresh, Date.now())).rejects.toThrow(`${path} cannot be written`)
})
