/** Writes one object to a bucket: with one request if it fits in the buffer, otherwise in parts. */
import { Readable } from 'node:stream'
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { hasStatus } from './s3-errors.ts'

type Bytes = AsyncIterable<Uint8Array>
type Target = { Bucket: string; Key: string; IfNoneMatch?: '*' }

/**
 * Larger objects are uploaded in parts. With this limit, a WAL segment of 16 MiB needs one request even if it cannot be
 * compressed. In parts it would need five.
 */
const mostBuffered = 17 * 1024 * 1024
/** S3 accepts at most 10,000 parts, so an object has at most 78 GiB. */
const partBytes = 8 * 1024 * 1024
/** Concurrent parts of one upload. Each part is in memory. */
const concurrentParts = 2

/** @returns `exists` if `target` is conditional and the object exists */
export async function upload(
  client: S3Client,
  target: Target,
  bytes: Bytes,
  signal: AbortSignal | undefined,
): Promise<'created' | 'exists'> {
  signal?.throwIfAborted()
  try {
    const { buffered, rest } = await gathered(bytes, signal)
    if (rest === undefined)
      await client.send(
        new PutObjectCommand({ ...target, Body: buffered }),
        signal === undefined ? {} : { abortSignal: signal },
      )
    else await inParts(client, target, joined(buffered, rest), signal)
    return 'created'
  } catch (error) {
    if (hasStatus(error, 412)) return 'exists'
    throw signal?.aborted ? signal.reason : error
  }
}

/** Reads up to about 17 MiB into a growing buffer. If more bytes remain, also returns an iterator of these bytes. */
async function gathered(
  bytes: Bytes,
  signal: AbortSignal | undefined,
): Promise<{ buffered: Buffer; rest?: AsyncIterator<Uint8Array> }> {
  const rest = bytes[Symbol.asyncIterator]()
  let buffered: Buffer = Buffer.allocUnsafeSlow(64 * 1024)
  let size = 0
  for (;;) {
    const { done, value } = await rest.next()
    if (done) return { buffered: buffered.subarray(0, size) }
    if (signal?.aborted) {
      await rest.return?.()
      signal.throwIfAborted()
    }
    if (size + value.length > buffered.length) buffered = grown(buffered.subarray(0, size), size + value.length)
    buffered.set(value, size)
    size += value.length
    if (size > mostBuffered) return { buffered: buffered.subarray(0, size), rest }
  }
}

function grown(buffered: Buffer, needed: number): Buffer {
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(4 * buffered.length, mostBuffered)))
  larger.set(buffered)
  return larger
}

async function* joined(buffered: Buffer, rest: AsyncIterator<Uint8Array>): Bytes {
  try {
    yield buffered
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}

async function inParts(client: S3Client, target: Target, bytes: Bytes, signal: AbortSignal | undefined): Promise<void> {
  const abortController = new AbortController()
  const abort = () => abortController.abort()
  signal?.addEventListener('abort', abort, { once: true })
  const body = Readable.from(bytes, { objectMode: false })
  try {
    const params = { ...target, Body: body }
    await new Upload({ client, params, partSize: partBytes, queueSize: concurrentParts, abortController }).done()
  } finally {
    signal?.removeEventListener('abort', abort)
    body.destroy()
  }
}
