import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDirectoryStore } from './directory.ts'
import { describeObjectStore, faultOf } from './testing/conformance.ts'

const roots: string[] = []
const newRoot = (): string => {
  const root = mkdtempSync(join(tmpdir(), 'espalier-archive-'))
  roots.push(root)
  return root
}
describeObjectStore('a directory', () => openDirectoryStore(join(newRoot(), 'new', 'one')))

let root: string
beforeEach(() => {
  root = newRoot()
})
afterEach(() => {
  for (const made of roots.splice(0)) rmSync(made, { recursive: true, force: true })
})

test('files that a killed writer left are no objects, and are deleted once they are old enough', async () => {
  const store = await openDirectoryStore(root)
  mkdirSync(join(root, 'a', 'b'), { recursive: true })
  const paths = ['old', 'new'].map(age => join(root, 'a', 'b', `.partial-${age}`))
  for (const path of paths) writeFileSync(path, 'half an object')
  const hourAgo = new Date(Date.now() - 3600_000)
  utimesSync(paths[0] ?? '', hourAgo, hourAgo)
  for await (const object of store.list('')) expect(object).toBeUndefined()
  expect(await store.deleteAbandonedUploads('other/', new Date())).toBe(0)
  expect(await store.deleteAbandonedUploads('a/', new Date(Date.now() - 60_000))).toBe(1)
  expect(readdirSync(join(root, 'a', 'b'))).toEqual(['.partial-new'])
})

test('a file where a directory must be is a fault of the store, which names the object', async () => {
  const store = await openDirectoryStore(root)
  writeFileSync(join(root, 'a'), '')
  expect(await faultOf(store.create('a/b', (async function* () {})()))).toMatchObject({
    kind: 'store',
    name: 'a/b',
    isTemporary: false,
  })
})

test('objects and directories are for their owner alone', async () => {
  const store = await openDirectoryStore(root)
  chmodSync(root, 0o755)
  await store.create('a/b', (async function* () {})())
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700)
  expect(statSync(join(root, 'a', 'b')).mode & 0o777).toBe(0o600)
})
