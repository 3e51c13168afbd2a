import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
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

test('files left by a killed writer are not objects, and are deleted once they are old enough', async () => {
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

test("a file at a directory's path causes a store error that names the object", async () => {
  const store = await openDirectoryStore(root)
  writeFileSync(join(root, 'a'), '')
  expect(await faultOf(store.create('a/b', (async function* () {})()))).toMatchObject({
    kind: 'store',
    name: 'a/b',
    isTemporary: false,
  })
})

test('an error of the root directory names the location', async () => {
  const store = await openDirectoryStore(root)
  rmSync(root, { recursive: true })
  symlinkSync(root, root)
  const name = `file://${root}`
  const listing = (async () => {
    for await (const _ of store.list(''));
  })()
  expect(await faultOf(listing)).toMatchObject({ kind: 'store', name, code: 'ELOOP' })
  expect(await faultOf(store.deleteAbandonedUploads('', new Date()))).toMatchObject({ name, code: 'ELOOP' })
})

test('only the owner can access objects and directories', async () => {
  const store = await openDirectoryStore(root)
  chmodSync(root, 0o755)
  await store.create('a/b', (async function* () {})())
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700)
  expect(statSync(join(root, 'a', 'b')).mode & 0o777).toBe(0o600)
})

test('the store ignores lost+found, even if it cannot read the directory', async () => {
  const store = await openDirectoryStore(root)
  mkdirSync(join(root, 'lost+found'), { mode: 0o000 })
  writeFileSync(join(root, 'lost+found', 'x'), '')
  for await (const object of store.list('')) expect(object).toBeUndefined()
  expect(await store.deleteAbandonedUploads('', new Date())).toBe(0)
})

test.skipIf(process.getuid?.() !== 0)(
  'a write to a full disk fails and leaves no file; it succeeds once the disk has space',
  async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', root])
    try {
      const store = await openDirectoryStore(root)
      await store.create('a/kept', bytes(400_000))
      const fault = await faultOf(store.create('a/large', bytes(900_000)))
      expect(fault).toMatchObject({ kind: 'store', name: 'a/large', code: 'ENOSPC', isTemporary: true })
      expect(readdirSync(join(root, 'a'))).toEqual(['kept'])
      await store.delete('a/kept')
      expect(await store.create('a/large', bytes(900_000))).toBe('created')
    } finally {
      execFileSync('umount', [root])
    }
  },
)

async function* bytes(size: number): AsyncGenerator<Buffer> {
  for (let left = size; left > 0; left -= 100_000) yield Buffer.alloc(Math.min(left, 100_000))
}
