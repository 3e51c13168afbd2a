import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { removeAbandoned, removeAbandonedRegularly } from './abandoned.ts'
import { checkKey } from './key-check.ts'
import { archiveKey } from './object/key.ts'
import { openDirectoryStore } from './store/directory.ts'
import type { ObjectStore } from './store/store.ts'

const dayMs = 86_400_000
const keys = { current: archiveKey(Buffer.alloc(32, 7)), previous: [] }
let root: string
let store: ObjectStore
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'espalier-abandoned-'))
  store = await openDirectoryStore(root)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))
const writeAged = (name: string, ageMs: number): void => {
  const path = join(root, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, 'x')
  const at = new Date(Date.now() - ageMs)
  utimesSync(path, at, at)
}

test('removes uploads and probe objects older than a day, and keeps recent ones, also if the clock is an hour ahead', async () => {
  await checkKey(store, keys)
  writeAged('a/1/wal/.partial-old', dayMs + 60_000)
  writeAged('a/1/wal/.partial-new', 60_000)
  writeAged('check-old', dayMs + 60_000)
  writeAged('check-new', 60_000)
  expect(await removeAbandoned(store, Date.now() + 3600_000)).toBe(2)
  expect(readdirSync(root).sort()).toEqual(['a', 'check-new', 'key-check'])
  expect(readdirSync(join(root, 'a/1/wal'))).toEqual(['.partial-new'])
})

test('an archive killed during its first start can start again; a store with other objects but no key-check object is refused', async () => {
  writeAged('check-1234', 1000)
  writeAged('key-check.claim-1234', 1000)
  await checkKey(store, keys)
  expect(readdirSync(root)).toContain('key-check')
  rmSync(join(root, 'key-check'))
  writeAged('a/1/wal/x', 1000)
  await expect(checkKey(store, keys)).rejects.toThrow('has objects, such as a/1/wal/x')
})

test('after a store error, the cleanup is retried at the next interval', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const logger = { info: vi.fn(), warn: vi.fn() }
    let isRefusing = true
    const refusing = {
      ...store,
      deleteAbandonedUploads: async () => {
        if (isRefusing) throw new Error('AccessDenied')
        return 2
      },
    }
    const removing = removeAbandonedRegularly(refusing, { logger: logger as never })
    await vi.waitFor(() => expect(logger.warn).toHaveBeenCalledOnce(), { timeout: 30_000 })
    isRefusing = false
    vi.advanceTimersByTime(6 * 3600_000)
    await vi.waitFor(() => expect(logger.info).toHaveBeenCalledWith({ count: 2 }, expect.any(String)), {
      timeout: 30_000,
    })
    removing.stop()
  } finally {
    vi.useRealTimers()
  }
})
