/** Reads a complete object of known size into memory. One zstd call decompresses the object, in another thread. */
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import { ArchiveError } from '../errors.ts'
import type { Content } from './header.ts'
import type { ArchiveKeys } from './key.ts'
import { opened } from './seal.ts'

const decompress = promisify(zstdDecompress)

/**
 * The content of an object, in one buffer. Does not compute the digest again: the header and each frame are
 * authenticated, and the length is checked.
 * @param expected the content that the object must have
 * @throws ArchiveError `damaged`, `unknown key`
 */
export async function unsealedComplete(
  source: AsyncIterable<Uint8Array>,
  { name, keys }: { name: string; keys: ArchiveKeys },
  expected: Content,
): Promise<Buffer> {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  const { header, frames } = await opened(source, name, keys)
  const isExpected = header.content?.sha256 === expected.sha256 && header.content.size === expected.size
  const buffered: Buffer[] = []
  for await (const frame of frames) {
    // Throws inside the loop, because leaving the loop closes the source.
    if (!isExpected) throw damaged("its content differs from the SHA-256 or size in the backup's record")
    buffered.push(frame)
  }
  const stored = Buffer.concat(buffered)
  const content = header.compression === 'none' ? stored : await decompressed(stored, expected.size, damaged)
  if (content.length !== expected.size) throw damaged(`it has ${content.length} bytes, not ${expected.size}`)
  return content
}

/** The output buffer has one extra byte, because zstd allocates another buffer when a buffer is full. */
async function decompressed(stored: Buffer, size: number, damaged: (detail: string) => Error): Promise<Buffer> {
  try {
    return await decompress(stored, { chunkSize: Math.max(size + 1, 64), maxOutputLength: Math.max(size, 1) })
  } catch (error) {
    throw damaged(`it cannot be decompressed to ${size} bytes: ${error instanceof Error ? error.message : error}`)
  }
}
