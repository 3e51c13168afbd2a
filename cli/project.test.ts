import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { chooseTarget, findProject, foldersAbove, parseProject, writeProject } from './project.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'espalier-project-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

test('the search begins in the folder and ends at the root', () => {
  expect(foldersAbove('/a/b/c')).toEqual(['/a/b/c', '/a/b', '/a', '/'])
  expect(foldersAbove('/')).toEqual(['/'])
})

test.each([
  ['not JSON', '{', 'is not JSON'],
  ['a file without a database', '{"branch":"x"}', 'must have a database'],
  ['a file with an API', '{"database":"shop","api":"https://evil.example"}', 'must have a database'],
  ['an empty name', '{"database":""}', 'must have a database'],
])('%s is refused', (_, text, message) => {
  expect(() => parseProject(text, '/p/.espalier')).toThrow(message)
})

test('the nearest file is used, and branch checkout in a folder below changes it', async () => {
  const below = join(directory, 'web', 'src')
  mkdirSync(below, { recursive: true })
  expect(await findProject(below)).toBeUndefined()
  const path = await writeProject(directory, { database: 'shop' })
  expect(path).toBe(join(directory, '.espalier'))
  expect(await findProject(below)).toEqual({ path, project: { database: 'shop' } })
  expect(await writeProject(below, { database: 'shop', branch: 'shop-a1b2c3d4' })).toBe(path)
  expect(readFileSync(path, 'utf8')).toBe('{"database":"shop","branch":"shop-a1b2c3d4"}\n')
})

test("if .espalier is an installation's directory, the file is inside the directory", async () => {
  mkdirSync(join(directory, '.espalier'))
  expect(await findProject(directory)).toBeUndefined()
  const path = await writeProject(directory, { database: 'shop' })
  expect(path).toBe(join(directory, '.espalier', 'project.json'))
  expect(await findProject(directory)).toEqual({ path, project: { database: 'shop' } })
})

test('a symlink and a file that is too large are not read', async () => {
  writeFileSync(join(directory, 'other'), '{"database":"shop"}')
  symlinkSync(join(directory, 'other'), join(directory, '.espalier'))
  expect(await findProject(directory)).toBeUndefined()
  rmSync(join(directory, '.espalier'))
  writeFileSync(join(directory, '.espalier'), `{"database":"shop"}${' '.repeat(5000)}`)
  expect(await findProject(directory)).toBeUndefined()
})

test("with a database argument, the project's branch is not used", () => {
  const found = { path: '/p/.espalier', project: { database: 'shop', branch: 'shop-a1b2c3d4' } }
  expect(chooseTarget({}, found)).toEqual({ database: 'shop', branch: 'shop-a1b2c3d4' })
  expect(chooseTarget({ branch: 'other' }, found)).toEqual({ database: 'shop', branch: 'other' })
  expect(chooseTarget({ database: 'shop' }, found)).toEqual({ database: 'shop' })
  expect(() => chooseTarget({}, undefined)).toThrow('name a database')
})
