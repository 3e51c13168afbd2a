/**
 * SHA-256 and size of finished segments, which do not change. The newest digests are cached: each is used three times.
 */
import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'

export type FileDigest = { sha256: Buffer; size: number }

/** Undefined if the file does not exist. @param name the name of a finished segment */
export type Digests = (name: string) => Promise<FileDigest | undefined>

const retainedDigests = 16
const readBytes = 128 * 1024

/** @param data the data directory */
export function createDigests(data: string): Digests {
  const known = new Map<string, Promise<FileDigest | undefined>>()
  const forget = (name: string) => void known.delete(name)
  return name => {
    const found = known.get(name)
    if (found !== undefined) return found
    const reading = digestOfFile(join(data, 'pg_wal', name))
    known.set(name, reading)
    for (const oldest of known.keys()) if (known.size > retainedDigests) known.delete(oldest)
    // Not cached if the file is missing or unreadable: the next call reads it again.
    reading.then(
      digest => digest ?? forget(name),
      () => forget(name),
    )
    return reading
  }
}

export const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT'

/** Undefined if the file does not exist. */
export async function digestOfFile(path: string): Promise<FileDigest | undefined> {
  const hash = createHash('sha256')
  let size = 0
  try {
    for await (const chunk of chunksOf(path)) {
      hash.update(chunk)
      size += chunk.length
    }
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  return { sha256: hash.digest(), size }
}

/** Uses one buffer for the whole file: new buffers would fill the memory before the next garbage collection. */
export async function* chunksOf(path: string): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(readBytes)
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, readBytes, null)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}
