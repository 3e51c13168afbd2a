/**
 * The manifest: the number of the journal in use, written before anything is written to that journal. Without the
 * manifest, the store would not detect that its newest journal is missing. The manifest is overwritten in place, which
 * needs no space on a full disk. In a directory of an earlier release, the first write creates it.
 */
import { type FileHandle, open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject, type JsonValue } from './json.ts'

const manifestName = 'manifest'
/** Less than a disk sector, so the disk writes it completely or not at all. */
const manifestBytes = 64

/** The journal that a directory must contain; undefined without a manifest. @throws Error for an unreadable manifest */
export async function readManifest(directory: string): Promise<number | undefined> {
  const text = await readFile(join(directory, manifestName), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (text === undefined) return undefined
  const value: JsonValue = JSON.parse(text)
  if (!isObject(value) || typeof value.journal !== 'number') throw new Error('the manifest names no journal')
  return value.journal
}

type Manifest = {
  /** Returns once the manifest on disk names this journal. */
  state(journal: number): Promise<void>
  close(): Promise<void>
}

/**
 * The manifest of an open store. Its file stays open, so that a process without free file descriptors can continue.
 * @param stated the journal that the manifest already names
 * @param syncNames makes the directory's names durable
 */
export function createManifest(
  directory: string,
  stated: number | undefined,
  syncNames: () => Promise<void>,
): Manifest {
  const path = join(directory, manifestName)
  let current = stated
  let file: FileHandle | undefined

  async function make(content: Buffer): Promise<FileHandle> {
    const made = await open(`${path}.new`, 'w', 0o600)
    try {
      await write(made, content)
      await rename(`${path}.new`, path)
      await syncNames()
      return made
    } catch (error) {
      await made.close()
      throw error
    }
  }

  return {
    async state(journal) {
      if (current === journal) return
      const content = Buffer.from(JSON.stringify({ journal }).padEnd(manifestBytes))
      if (current === undefined) file = await make(content)
      else {
        file ??= await open(path, 'r+')
        await write(file, content)
      }
      current = journal
    },
    close: async () => file?.close(),
  }
}

async function write(file: FileHandle, content: Buffer): Promise<void> {
  await file.write(content, 0, content.length, 0)
  await file.sync()
}
