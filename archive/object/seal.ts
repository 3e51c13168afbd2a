/**
 * Converts content to an object of the archive, and back. An object is a stream of bytes: a header, and the content,
 * compressed with zstd and encrypted in frames.
 */
import { createHash, randomBytes } from 'node:crypto'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { saltAfter } from '../../instance/archive/predecessor.ts'
import { ArchiveError } from '../errors.ts'
import { verifiedCompressed, verifiedEncoded } from './compressed.ts'
import { decryptedFrames, encryptedFrames } from './frames.ts'
import { type Content, mostHeaderBytes, type ObjectHeader, parseHeader, renderHeader, saltBytes } from './header.ts'
import { type ArchiveKeys, objectKeys } from './key.ts'

type Bytes = AsyncIterable<Uint8Array>

/** At this zstd level a core compresses WAL faster than most object stores accept it. */
const compressionLevel = 1
/** Size of the chunks that zstd returns. */
const yieldedBytes = 256 * 1024
/**
 * Size of the chunks to compress. Another thread compresses each chunk. For a small chunk (a TLS record), the thread
 * switch costs more than the compression.
 */
const gatheredBytes = 1024 * 1024

type SealedObject = {
  name: string
  keys: ArchiveKeys
  content?: Content
  predecessor?: Buffer | undefined
} & Verification
/**
 * `isVerified`: the caller has checked the source. `isCompressed`: the source is a zstd stream, and is stored
 * unchanged. `encodedSha256`: the digest of a compressed source. It is checked instead of the content's digest.
 */
export type Verification = { isVerified?: boolean; isCompressed?: boolean; encodedSha256?: string | undefined }

/**
 * The bytes of a new object. `content`: digest and size of the content, if known. Without `isVerified`, the stream
 * fails if the source has other content. `predecessor`: the SHA-256 of the previous segment. The salt contains a hash
 * of this SHA-256.
 * @throws ArchiveError `content differs`, while the stream is read
 */
export async function* sealed(source: Bytes, object: SealedObject): AsyncGenerator<Buffer> {
  const { name, keys, content, predecessor } = object
  const salt = predecessor === undefined ? randomBytes(saltBytes) : saltAfter(predecessor)
  const derived = objectKeys(keys.current, salt)
  const header: ObjectHeader = {
    name,
    key: keys.current.id,
    salt: salt.toString('base64'),
    compression: 'zstd',
    ...(content === undefined ? {} : { content }),
  }
  yield renderHeader(header, derived.header)
  yield* encryptedFrames(compressed(source, object), derived.frames)
}

function compressed(source: Bytes, object: SealedObject): Bytes {
  const { name, content } = object
  const isTrusted = content === undefined || object.isVerified
  if (object.isCompressed && isTrusted) return source
  const inPieces = gathered(source, Math.min(gatheredBytes, content?.size ?? gatheredBytes))
  if (object.isCompressed && !isTrusted)
    return object.encodedSha256 === undefined
      ? verifiedCompressed(inPieces, content, differs(name))
      : verifiedEncoded(inPieces, content, object.encodedSha256, differs(name))
  const checked = isTrusted ? inPieces : verified(inPieces, content, differs(name))
  const params = { [constants.ZSTD_c_compressionLevel]: compressionLevel }
  return through(checked, createZstdCompress({ chunkSize: yieldedBytes, params }))
}

type Unsealed = { header: ObjectHeader; content: Bytes }

/**
 * Resolves once the header was read and authenticated.
 * @throws ArchiveError `damaged`, `unknown key`; `damaged` also while the content is read
 */
export async function unsealed(source: Bytes, { name, keys }: { name: string; keys: ArchiveKeys }): Promise<Unsealed> {
  const { header, frames } = await opened(source, name, keys)
  return { header, content: plainOf(header, frames) }
}

/**
 * Decompresses decrypted frames, and checks size and digest.
 * @throws ArchiveError `damaged`, while the returned content is read
 */
export function plainOf({ compression, content, name }: ObjectHeader, frames: Bytes): Bytes {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  const plain = compression === 'none' ? frames : decompressed(frames, damaged)
  return content === undefined ? plain : verified(plain, content, damaged)
}

/**
 * Decrypted bytes can be invalid zstd: the archive stores a part without decompressing it if the client sends the
 * digest of the compressed bytes.
 */
async function* decompressed(frames: Bytes, damaged: (detail: string) => Error): Bytes {
  try {
    yield* through(frames, createZstdDecompress({ chunkSize: yieldedBytes }))
  } catch (error) {
    // Z_BUF_ERROR: the stream is truncated.
    const isZstd = error instanceof Error && 'code' in error && /^(ZSTD_|Z_BUF_ERROR$)/.test(String(error.code))
    throw isZstd ? damaged(`it is not valid zstd: ${error.message}`) : error
  }
}

/**
 * Reads an object to its end, and resolves to its header if every byte is unchanged. Authenticates the frames, and does
 * not decompress them.
 * @throws ArchiveError `damaged`, `unknown key`
 */
export async function authenticated(
  source: Bytes,
  { name, keys }: { name: string; keys: ArchiveKeys },
): Promise<ObjectHeader> {
  const { header, frames } = await opened(source, name, keys)
  for await (const _ of frames);
  return header
}

/**
 * The decrypted frames of an object, still compressed. Closes the source if the header is invalid
 * or its key is unknown.
 * @throws ArchiveError `damaged`, `unknown key`; `damaged` also while the frames are read
 */
export async function opened(
  source: Bytes,
  name: string,
  keys: ArchiveKeys,
): Promise<{ header: ObjectHeader; frames: AsyncGenerator<Buffer> }> {
  const { start, rest } = await split(source, mostHeaderBytes)
  try {
    const { header, length, frameKey } = parseHeader(start, name, keys)
    return { header, frames: decryptedFrames(joined(start.subarray(length), rest), frameKey, name) }
  } catch (error) {
    await rest.return?.()
    throw error
  }
}

const differs = (name: string) => (detail: string) => new ArchiveError({ kind: 'content differs', name, detail })

/** Returns the source unchanged. Fails unless it has the digest and size of the expected content. */
async function* verified(source: Bytes, { sha256, size }: Content, failure: (detail: string) => Error): Bytes {
  const hash = createHash('sha256')
  let length = 0
  for await (const chunk of source) {
    hash.update(chunk)
    length += chunk.length
    if (length > size) throw failure(`it has more than ${size} bytes`)
    yield chunk
  }
  if (length !== size) throw failure(`it has ${length} bytes, not ${size}`)
  const digest = hash.digest('hex')
  if (digest !== sha256) throw failure(`its SHA-256 is ${digest}, not ${sha256}`)
}

/**
 * Divides the source into chunks of `size` bytes. Two buffers alternate. A chunk stays valid while the reader uses
 * the next chunk.
 */
async function* gathered(source: Bytes, size: number): Bytes {
  let [filling, other]: (Buffer | undefined)[] = []
  let filled = 0
  for await (const chunk of source)
    for (let at = 0; at < chunk.length; ) {
      filling ??= Buffer.allocUnsafeSlow(Math.max(size, 1))
      const some = chunk.subarray(at, at + filling.length - filled)
      filling.set(some, filled)
      filled += some.length
      at += some.length
      if (filled < filling.length) continue
      yield filling
      ;[filling, other] = [other, filling]
      filled = 0
    }
  if (filling !== undefined && filled > 0) yield filling.subarray(0, filled)
}

/**
 * Reads the next chunk from the source while the previous chunk is transformed. The reader receives errors of the
 * source and of the transformation. If the reader stops, both are closed.
 */
async function* through(source: Bytes, transform: ReturnType<typeof createZstdCompress>): Bytes {
  // Without a handler, an error after the end of the zstd stream would end the process.
  transform.on('error', () => {})
  const running = feed(source, transform).catch((error: Error) => {
    transform.destroy(error)
  })
  try {
    yield* transform as Bytes
  } finally {
    transform.destroy()
  }
  await running
}

async function feed(source: Bytes, transform: ReturnType<typeof createZstdCompress>): Promise<void> {
  const closed = new Promise<void>(resolve => transform.once('close', resolve))
  let transformed: Promise<void> = Promise.resolve()
  for await (const piece of source) {
    await Promise.race([transformed, closed])
    if (transform.destroyed) return
    const { promise, resolve } = Promise.withResolvers<void>()
    transform.write(piece, () => resolve())
    transformed = promise
  }
  transform.end()
}

/** Reads chunks until `start` has at least `length` bytes. `rest` yields the remaining chunks. */
async function split(source: Bytes, length: number): Promise<{ start: Buffer; rest: AsyncIterator<Uint8Array> }> {
  const rest = source[Symbol.asyncIterator]()
  const chunks: Uint8Array[] = []
  for (let buffered = 0; buffered < length; ) {
    const { done, value } = await rest.next()
    if (done) break
    chunks.push(value)
    buffered += value.length
  }
  return { start: Buffer.concat(chunks), rest }
}

async function* joined(start: Uint8Array, rest: AsyncIterator<Uint8Array>): Bytes {
  try {
    if (start.length > 0) yield start
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}
