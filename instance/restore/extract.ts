/** Writes the data directory out of the archive of a base backup, and compares every file with the manifest while it is written. */
import { createHash } from 'node:crypto'
import { mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Manifest } from './manifest.ts'
import { entriesOf, type TarEntry } from './tar.ts'

/** Postgres leaves these out of the manifest: WAL has checksums of its own. */
const isOutsideManifest = (name: string): boolean => name.startsWith('pg_wal/') || name === 'backup_manifest'

/**
 * @param directory exists and is empty
 * @returns how many bytes were written
 * @throws Error for a file that is not in the manifest or differs from it, and for files of the manifest that did not come
 */
export async function extractBackup(
  source: AsyncIterable<Buffer>,
  manifest: Manifest,
  directory: string,
): Promise<number> {
  const missing = new Set(manifest.files.keys())
  let bytes = 0
  for await (const entry of entriesOf(source)) {
    if (entry.kind === 'directory') await mkdir(join(directory, entry.name), { recursive: true, mode: 0o700 })
    else if (entry.kind === 'link') throw new Error(`${entry.name}: tablespaces are not restored`)
    else {
      await writeFile(entry, join(directory, entry.name), manifest)
      missing.delete(entry.name)
      bytes += entry.size
    }
  }
  const [first] = missing
  if (first !== undefined)
    throw new Error(`the backup lacks ${first}, and ${missing.size - 1} more files of its manifest`)
  return bytes
}

async function writeFile(entry: TarEntry & { kind: 'file' }, path: string, { files }: Manifest): Promise<void> {
  const { name, size, content } = entry
  const expected = files.get(name)
  if (expected === undefined && !isOutsideManifest(name))
    throw new Error(`${name} is not in the manifest of the backup`)
  if (expected !== undefined && expected.size !== size)
    throw new Error(`${name} has ${size} bytes, and ${expected.size} by the manifest of the backup`)
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const file = await open(path, 'wx', 0o600)
  const hash = createHash('sha256')
  try {
    for await (const chunk of content) {
      hash.update(chunk)
      await writeAll(file, chunk)
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  if (expected !== undefined && hash.digest('hex') !== expected.sha256)
    throw new Error(`${name} differs from the manifest of the backup`)
}

async function writeAll(file: Awaited<ReturnType<typeof open>>, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten
}
