import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkKey } from './key-check.ts'
import { archiveKey } from './object/key.ts'
import { openDirectoryStore } from './store/directory.ts'
import type { ObjectStore } from './store/store.ts'

const keys = (byte: number) => ({ current: archiveKey(Buffer.alloc(32, byte)), previous: [] })
let root: string
let store: ObjectStore
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'espalier-key-check-'))
  store = await openDirectoryStore(root)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/**
 * A store in which a second replica writes the key-check object. The second replica writes after the first replica's
 * read, and before the first replica's list.
 */
const withSibling = (byte: number): ObjectStore => ({
  ...store,
  async *list(prefix, after) {
    await checkKey(store, keys(byte))
    yield* store.list(prefix, after)
  },
})

test('two replicas can start at the same time on an empty store', async () => {
  await checkKey(withSibling(7), keys(7))
})

test('a replica whose key differs from the key of the key-check object cannot start', async () => {
  await expect(checkKey(withSibling(7), keys(8))).rejects.toThrow(
    'which is not configured. Espalier stores nothing there',
  )
})
