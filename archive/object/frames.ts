/**
 * Encrypts a stream in frames of 256 KiB with AES-256-GCM (NIST SP 800-38D). The nonce contains the frame number and a
 * flag for the last frame. So a reader detects changed, exchanged, repeated and omitted frames, and a truncated stream.
 * Each key is used for one object only.
 */
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto'
import { ArchiveError } from '../errors.ts'

const plainBytes = 256 * 1024
const tagBytes = 16
const frameBytes = plainBytes + tagBytes
const mostFrames = 2 ** 32

function nonceOf(index: number, isLast: boolean): Buffer {
  if (index >= mostFrames) throw new RangeError(`an object has at most ${mostFrames} frames`)
  const nonce = Buffer.alloc(12)
  nonce.writeUInt32BE(index, 7)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

function encrypt(key: KeyObject, index: number, plain: Uint8Array, isLast: boolean): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(index, isLast))
  const encrypted = cipher.update(plain)
  // In GCM mode the final call returns no data.
  cipher.final()
  return Buffer.concat([encrypted, cipher.getAuthTag()])
}

type Frame = { bytes: Buffer; isLast: boolean }

/**
 * Yields chunks of exactly `size` bytes; the last chunk has 0 to `size` bytes. A chunk is valid until the reader
 * requests the next chunk.
 */
async function* pieces(source: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Frame> {
  const buffer = Buffer.allocUnsafeSlow(size)
  let filled = 0
  for await (const chunk of source)
    for (let at = 0; at < chunk.length; ) {
      // A full chunk may be the last chunk. Yield it with `isLast: false` only when more data follow.
      if (filled === size) {
        yield { bytes: buffer, isLast: false }
        filled = 0
      }
      const some = chunk.subarray(at, at + size - filled)
      buffer.set(some, filled)
      filled += some.length
      at += some.length
    }
  yield { bytes: buffer.subarray(0, filled), isLast: true }
}

export async function* encryptedFrames(source: AsyncIterable<Uint8Array>, key: Uint8Array): AsyncGenerator<Buffer> {
  const secret = createSecretKey(key)
  let index = 0
  for await (const { bytes, isLast } of pieces(source, plainBytes)) yield encrypt(secret, index++, bytes, isLast)
}

/**
 * Decrypts frames. Authenticates each frame before it yields the frame's data. If the stream is truncated, yields
 * only earlier frames, and then fails.
 * @throws ArchiveError `damaged`
 */
export async function* decryptedFrames(
  source: AsyncIterable<Uint8Array>,
  key: Uint8Array,
  name: string,
): AsyncGenerator<Buffer> {
  const secret = createSecretKey(key)
  let index = 0
  for await (const { bytes, isLast } of pieces(source, frameBytes)) yield decrypt(secret, index++, bytes, isLast, name)
}

function decrypt(key: KeyObject, index: number, frame: Uint8Array, isLast: boolean, name: string): Buffer {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  if (frame.length < tagBytes) throw damaged(`it is truncated in frame ${index}`)
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(index, isLast))
  decipher.setAuthTag(frame.subarray(frame.length - tagBytes))
  const plain = decipher.update(frame.subarray(0, frame.length - tagBytes))
  try {
    // In GCM mode the final call returns no data.
    decipher.final()
    return plain
  } catch {
    throw damaged(isLast ? `frame ${index} was changed, or the end is truncated` : `frame ${index} was changed`)
  }
}
