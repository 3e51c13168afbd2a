/** Compresses content for the archive with zstd, outside the event loop. The archive stores it unchanged. */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { constants, createZstdCompress, zstdDecompress } from 'node:zlib'
import { type Content, contentOf, slicesOf } from './transport.ts'

/** At this zstd level a core compresses faster than most networks send. */
const level = 1
const yieldedBytes = 256 * 1024

const compressor = () =>
  createZstdCompress({ chunkSize: yieldedBytes, params: { [constants.ZSTD_c_compressionLevel]: level } })
type Compressor = ReturnType<typeof compressor>

/** Resolves once the bytes are compressed and may be overwritten. */
const written = (zstd: Compressor, bytes: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    zstd.write(bytes, error => (error ? reject(error) : resolve()))
  })

/** Compresses each chunk before it requests the next chunk. */
export async function* compressed(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const zstd = compressor()
  zstd.on('error', () => {})
  const feeding = (async () => {
    for await (const chunk of source) await written(zstd, chunk)
    zstd.end()
  })().catch((error: Error) => void zstd.destroy(error))
  try {
    yield* zstd as AsyncIterable<Buffer>
  } finally {
    zstd.destroy()
  }
  await feeding
}

/** A part of a backup, while it is filled. */
export type Part = {
  /** The number of added bytes, before compression. */
  readonly size: number
  /** Resolves once the caller may overwrite the bytes of earlier calls. */
  add(bytes: Buffer): Promise<void>
  /** May be called once. */
  end(): Promise<Content>
  /** Frees the memory of an unfinished part. */
  drop(): void
}

export function compressedPart(): Part {
  const zstd = compressor()
  const [hash, encoded] = [createHash('sha256'), createHash('sha256')]
  const chunks: Buffer[] = []
  let [size, stored] = [0, 0]
  let adding: Promise<void> = Promise.resolve()
  zstd.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    encoded.update(chunk)
    stored += chunk.length
  })
  const ended = new Promise<void>((resolve, reject) => {
    zstd.once('end', resolve).on('error', reject)
  })
  // `end` awaits it. A rejection before that would have no handler, and Node would end the process.
  ended.catch(() => {})
  return {
    get size() {
      return size
    },
    async add(bytes) {
      await adding
      size += bytes.length
      adding = written(zstd, bytes)
      adding.catch(() => {})
      hash.update(bytes)
    },
    async end() {
      await adding
      zstd.end()
      await ended
      return {
        sha256: hash.digest(),
        size,
        compressed: { size: stored, sha256: encoded.digest() },
        chunks: () => slices(chunks),
      }
    },
    drop: () => void zstd.destroy(),
  }
}

/** A part for an archive of an earlier version, which does not accept compressed content. */
export function plainPart(): Part {
  const chunks: Buffer[] = []
  let size = 0
  return {
    get size() {
      return size
    },
    async add(bytes) {
      chunks.push(Buffer.from(bytes))
      size += bytes.length
    },
    end: async () => contentOf(Buffer.concat(chunks)),
    drop: () => {},
  }
}

function* slices(chunks: readonly Buffer[]): Generator<Buffer> {
  for (const chunk of chunks) yield* slicesOf(chunk)
}

const decompress = promisify(zstdDecompress)

/** Decompresses the content. */
export async function plainOf(content: Content): Promise<Content> {
  const chunks: Buffer[] = []
  for await (const chunk of content.chunks()) chunks.push(Buffer.from(chunk))
  return contentOf(await decompress(Buffer.concat(chunks), { maxOutputLength: Math.max(content.size, 1) }))
}
