/** What the store's tests share: stores in memory and on disk that go when the test ends, small objects, bad disks. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import type { Cluster, Draft } from '../../../cluster/index.ts'
import { definitionOf } from '../../../crds/definition.ts'
import { declarations, type ObjectMeta } from '../../../crds/index.ts'
import { StoreError } from '../errors.ts'
import { openStore, type Store, type StoreOptions } from '../index.ts'
import { type OpenFile, openFile } from '../log-file.ts'

export const silent = pino({ level: 'silent' })
export const definitions = Object.values(declarations).map(definitionOf)

/** A directory that is removed when the test ends. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-store-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

export const openDirectory = (directory: string, options: Partial<StoreOptions> = {}): Promise<Store> =>
  openStore({ directory, definitions, logger: silent, ...options })

/** Why a directory is not opened. @throws where it is, or fails otherwise */
export async function refusedToOpen(directory: string): Promise<StoreError> {
  const error = await openDirectory(directory).then(
    async store => {
      await store.close()
      return new Error('was opened')
    },
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof StoreError)) throw error
  return error
}

type TestStore = { store: Store; cluster: Cluster }

/** A store with all of our kinds, closed when the test ends. */
export async function testStore(options: Partial<StoreOptions> = {}): Promise<TestStore> {
  const store = await openStore({ definitions, logger: silent, ...options })
  onTestFinished(() => store.close())
  return { store, cluster: store.connect('test') }
}

export const configMap = (
  name: string,
  data: Record<string, string> = {},
  metadata: Partial<ObjectMeta> = {},
): Draft<'ConfigMap'> => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { ...metadata, namespace: 'default', name },
  data,
})

/** What a bad disk does to the next calls: nothing, take a few bytes and then be full, or fail to confirm. */
type Fault = 'none' | 'full' | 'unconfirmed'

/** Files on a disk that fails as told, for good or so many times. `fails`: which of them. */
export function faultyFiles(fails: (path: string) => boolean = () => true): {
  openFile: OpenFile
  fail(fault: Fault, times?: number): void
} {
  let fault: Fault = 'none'
  let left = 0
  /** Bytes that a full disk has still taken. */
  let written = 0
  const error = (code: string): Error => Object.assign(new Error(`${code}: test`), { code })
  return {
    fail: (next, times = Number.POSITIVE_INFINITY) => {
      fault = next
      left = times
      written = 0
    },
    openFile: async (path, flags, mode) => {
      const file = await openFile(path, flags, mode)
      if (!fails(path)) return file
      return {
        truncate: length => file.truncate(length),
        close: () => file.close(),
        datasync: async () => {
          if (fault === 'unconfirmed' && left-- > 0) throw error('EIO')
          await file.datasync()
        },
        write: async (buffer, offset, length, position) => {
          if (fault === 'full' && written >= 7) throw error('ENOSPC')
          const part = fault === 'full' ? Math.min(length, 7) : length
          written += fault === 'full' ? part : 0
          return file.write(buffer, offset, part, position)
        },
      }
    },
  }
}
