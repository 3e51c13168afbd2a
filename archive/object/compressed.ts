/** Checks the compressed content of requests. The archive does not compress this content again. */
import { createHash } from 'node:crypto'
import { createZstdDecompress, type ZstdDecompress } from 'node:zlib'
import type { Content } from './header.ts'

/** Size of the chunks that zstd returns. */
const yieldedBytes = 256 * 1024

/** An upper bound of zstd's output for `size` bytes, larger than `ZSTD_COMPRESSBOUND`. */
const mostCompressed = (size: number): number => size + Math.ceil(size / 128) + 64 * 1024

/**
 * Returns the zstd stream unchanged. Fails unless the decompressed bytes have the digest and size of `content`. Stops
 * decompressing, and fails, when the size is exceeded.
 * @param failure creates the error
 */
export async function* verifiedCompressed(
  source: AsyncIterable<Uint8Array>,
  content: Content,
  failure: (detail: string) => Error,
): AsyncGenerator<Uint8Array> {
  const zstd = createZstdDecompress({ chunkSize: yieldedBytes })
  // Without a handler, an error after the end of the stream would end the process.
  zstd.on('error', () => {})
  const compared = compare(zstd, content, failure)
  // `compared` is awaited below. Without this handler, an earlier rejection would end the process.
  compared.catch(() => {})
  let length = 0
  let written: Promise<unknown> = Promise.resolve()
  try {
    for await (const chunk of source) {
      length += chunk.length
      if (length > mostCompressed(content.size))
        throw failure(`its compressed content has more than ${mostCompressed(content.size)} bytes`)
      await Promise.race([written, compared])
      // Another thread decompresses the chunk while the caller stores it.
      written = new Promise<void>(resolve => zstd.write(chunk, () => resolve()))
      yield chunk
    }
    await Promise.race([written, compared])
    zstd.end()
    await compared
    if (zstd.bytesWritten !== length) throw failure('it has bytes after the end of the zstd stream')
  } finally {
    zstd.destroy()
  }
}

/**
 * Returns the zstd stream unchanged. Fails unless the compressed bytes have the digest `sha256`. Does not decompress.
 * @param failure creates the error
 */
export async function* verifiedEncoded(
  source: AsyncIterable<Uint8Array>,
  { size }: Content,
  sha256: string,
  failure: (detail: string) => Error,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let length = 0
  for await (const piece of source) {
    hash.update(piece)
    length += piece.length
    if (length > mostCompressed(size))
      throw failure(`its compressed content has more than ${mostCompressed(size)} bytes`)
    yield piece
  }
  const digest = hash.digest('hex')
  if (digest !== sha256) throw failure(`the SHA-256 of the compressed bytes is ${digest}, not ${sha256}`)
}

async function compare(
  zstd: ZstdDecompress,
  { sha256, size }: Content,
  failure: (detail: string) => Error,
): Promise<void> {
  const hash = createHash('sha256')
  let length = 0
  try {
    for await (const chunk of zstd as AsyncIterable<Buffer>) {
      hash.update(chunk)
      length += chunk.length
      if (length > size) break
    }
  } catch (error) {
    throw failure(`it cannot be decompressed: ${error instanceof Error ? error.message : error}`)
  }
  if (length > size) throw failure(`it has more than ${size} bytes`)
  if (length !== size) throw failure(`it has ${length} bytes, not ${size}`)
  const digest = hash.digest('hex')
  if (digest !== sha256) throw failure(`its SHA-256 is ${digest}, not ${sha256}`)
}
