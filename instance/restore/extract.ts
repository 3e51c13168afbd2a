/** Extracts the data directory from a base backup's tar archive. The manifest checks every file while it is written. */
import { createHash } from 'node:crypto'
import { mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Flushes } from './flushes.ts'
import type { Manifest } from './manifest.ts'
import { entriesOf, type TarEntry } from './tar.ts'

/** Files that Postgres's manifest does not contain: WAL has its own checksums. */
const isOutsideManifest = (name: string): boolean => name.startsWith('pg_wal/') || name === 'backup_manifest'

/**
 * @param directory exists and is empty
 * @returns the number of bytes written
 * @throws Error for a file that is not in the manifest or differs from it, and for missing files of the manifest
 */
export async function extractBackup(
  source: AsyncIterable<Buffer>,
  manifest: Manifest,
  directory: string,
): Promise<number> {
  const missing = new Set(manifest.files.keys())
  const flushes = new Flushes(directory)
  let bytes = 0
  try {
    for await (const entry of entriesOf(source)) {
      if (entry.kind === 'directory') mkdirSync(join(directory, entry.name), { recursive: true, mode: 0o700 })
      else if (entry.kind === 'link') throw new Error(`${entry.name}: tablespaces are not restored`)
      else {
        await flushes.add(await writeFile(entry, join(directory, entry.name), manifest, flushes))
        missing.delete(entry.name)
        bytes += entry.size
      }
    }
  } finally {
    await flushes.end()
  }
  const [first] = missing
  if (first !== undefined)
    throw new Error(`the backup lacks ${first}, and ${missing.size - 1} more files of its manifest`)
  return bytes
}

/**
 * Writes synchronously, because passing a write to another thread costs more than copying it to the page cache.
 * @returns the open file, which is not flushed yet
 */
async function writeFile(
  entry: TarEntry & { kind: 'file' },
  path: string,
  { files }: Manifest,
  flushes: Flushes,
): Promise<number> {
  const { name, size, content } = entry
  const expected = files.get(name)
  if (expected === undefined && !isOutsideManifest(name))
    throw new Error(`${name} is not in the manifest of the backup`)
  if (expected !== undefined && expected.size !== size)
    throw new Error(`${name} has ${size} bytes; the manifest of the backup states ${expected.size}`)
  const file = openNew(path)
  const hash = expected && createHash('sha256')
  try {
    for await (const chunk of content) {
      hash?.update(chunk)
      for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at)
      flushes.wrote(file, chunk.length)
    }
    if (hash?.digest('hex') !== expected?.sha256) throw new Error(`${name} differs from the manifest of the backup`)
    return file
  } catch (error) {
    await flushes.drop(file)
    throw error
  }
}

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', 0o600)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return openSync(path, 'wx', 0o600)
  }
}
