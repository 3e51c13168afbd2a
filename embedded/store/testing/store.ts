/**
 * Shared by the store's tests: small objects, bad disks, and stores in memory and on disk that are removed when the
 * test ends.
 */
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

/** Returns why a directory cannot be opened. @throws if it can be opened, or if opening fails in another way */
export async function refusedToOpen(directory: string): Promise<StoreError> {
  const error = await openDirectory(directory).then(
    async store => {
      await store.close()
      return new Error('the directory was opened')
    },
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof StoreError)) throw error
  return error
}

type TestStore = { store: Store; cluster: Cluster }

/** A store with all Espalier kinds, closed when the test ends. */
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

/**
 * How a bad disk fails the next calls: `none` does not fail, `full` fails after a few bytes, `unconfirmed` fails to
 * sync. An error code fails every write with this error.
 */
type Fault = 'none' | 'full' | 'unconfirmed' | 'EFBIG' | 'ENFILE'

/** Files on a disk that fails as configured. `fails` selects the files that fail; default: all. */
export function faultyFiles(fails: (path: string) => boolean = () => true): {
  openFile: OpenFile
  fail(fault: Fault, times?: number): void
} {
  let fault: Fault = 'none'
  let remainingFaults = 0
  /** Bytes that the full disk has accepted. */
  let written = 0
  const error = (code: string): Error => Object.assign(new Error(`${code}: test`), { code })
  return {
    fail: (next, times = Number.POSITIVE_INFINITY) => {
      fault = next
      remainingFaults = times
      written = 0
    },
    openFile: async (path, flags, mode) => {
      const file = await openFile(path, flags, mode)
      if (!fails(path)) return file
      return {
        truncate: length => file.truncate(length),
        close: () => file.close(),
        datasync: async () => {
          if (fault === 'unconfirmed' && remainingFaults-- > 0) throw error('EIO')
          await file.datasync()
        },
        write: async (buffer, offset, length, position) => {
          if (fault === 'full' && written >= 7) throw error('ENOSPC')
          if (fault === 'EFBIG' || fault === 'ENFILE') throw error(fault)
          const part = fault === 'full' ? Math.min(length, 7) : length
          written += fault === 'full' ? part : 0
          return file.write(buffer, offset, part, position)
        },
      }
    },
  }
}
