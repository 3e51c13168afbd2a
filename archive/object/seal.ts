/** An object of the archive as a stream of bytes: its content compressed with zstd, encrypted in frames, behind a header. */
import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { ArchiveError } from '../errors.ts'
import { decryptedFrames, encryptedFrames } from './frames.ts'
import { type Content, mostHeaderBytes, type ObjectHeader, parseHeader, renderHeader, saltBytes } from './header.ts'
import { type ArchiveKeys, objectKeys } from './key.ts'

type Bytes = AsyncIterable<Uint8Array>

/** The level of zstd: at this one a core compresses WAL faster than most object stores take it. */
const compressionLevel = 1
/** Of the pieces in which zstd yields. Smaller ones cost more for each byte. */
const streamBytes = 256 * 1024

/**
 * The bytes of a new object. `content`: of the source, where it is known; the stream fails where the source has another digest or size.
 * @throws ArchiveError `content differs`, while it is read
 */
export async function* sealed(
  source: Bytes,
  { name, keys, content }: { name: string; keys: ArchiveKeys; content?: Content },
): AsyncGenerator<Buffer> {
  const salt = randomBytes(saltBytes)
  const derived = objectKeys(keys.current, salt)
  const header: ObjectHeader = {
    name,
    key: keys.current.id,
    salt: salt.toString('base64'),
    compression: 'zstd',
    ...(content === undefined ? {} : { content }),
  }
  yield renderHeader(header, derived.header)
  const checked = content === undefined ? source : verified(source, content, differs(name))
  const compressed = through(
    checked,
    createZstdCompress({ chunkSize: streamBytes, params: { [constants.ZSTD_c_compressionLevel]: compressionLevel } }),
  )
  yield* encryptedFrames(compressed, derived.frames)
}

type Unsealed = { header: ObjectHeader; content: Bytes }

/**
 * Resolves once the header was read and is authentic.
 * @throws ArchiveError `damaged`, `unknown key`; `damaged` also while the content is read
 */
export async function unsealed(source: Bytes, { name, keys }: { name: string; keys: ArchiveKeys }): Promise<Unsealed> {
  const { start, rest } = await split(source, mostHeaderBytes)
  const { header, length, frameKey } = parseHeader(start, name, keys)
  const frames = decryptedFrames(joined(start.subarray(length), rest), frameKey, name)
  const plain =
    header.compression === 'none' ? frames : through(frames, createZstdDecompress({ chunkSize: streamBytes }))
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  return { header, content: header.content === undefined ? plain : verified(plain, header.content, damaged) }
}

/**
 * Reads an object to its end, and resolves to its header if every byte is as it was written. Nothing is decompressed: the frames are
 * authenticated.
 * @throws ArchiveError `damaged`, `unknown key`
 */
export async function authenticated(
  source: Bytes,
  { name, keys }: { name: string; keys: ArchiveKeys },
): Promise<ObjectHeader> {
  const { start, rest } = await split(source, mostHeaderBytes)
  const { header, length, frameKey } = parseHeader(start, name, keys)
  for await (const _ of decryptedFrames(joined(start.subarray(length), rest), frameKey, name));
  return header
}

const differs = (name: string) => (detail: string) => new ArchiveError({ kind: 'content differs', name, detail })

/** Passes the source through, and fails at its end unless it has that digest and size. */
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

/** An error of the source or of the transformation is thrown to the reader; a reader that stops ends both. */
async function* through(source: Bytes, transform: ReturnType<typeof createZstdCompress>): Bytes {
  const running = pipeline(Readable.from(source), transform)
  // It is awaited below; until then a failure is not an unhandled one.
  running.catch(() => {})
  try {
    yield* transform as Bytes
  } finally {
    transform.destroy()
  }
  await running
}

/** The first `length` bytes, or all there are, and what follows. */
async function split(source: Bytes, length: number): Promise<{ start: Buffer; rest: AsyncIterator<Uint8Array> }> {
  const rest = source[Symbol.asyncIterator]()
  const chunks: Uint8Array[] = []
  for (let held = 0; held < length; ) {
    const { done, value } = await rest.next()
    if (done) break
    chunks.push(value)
    held += value.length
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
