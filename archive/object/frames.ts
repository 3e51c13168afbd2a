/**
 * Encryption of a stream in frames of 256 KiB, each AES-256-GCM (NIST SP 800-38D). The nonce counts the frames and marks the last
 * one, so that frames cannot be changed, exchanged, repeated or left out, and the end cannot be cut off. The key is used for one
 * object only.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto'
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

function encrypt(key: Uint8Array, index: number, plain: Uint8Array, isLast: boolean): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(index, isLast))
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Yields pieces of exactly `size` bytes, and in the end one of 0 to `size` bytes. */
async function* pieces(source: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = []
  let length = 0
  for await (const chunk of source) {
    held.push(chunk)
    length += chunk.length
    // The last piece is only known to be the last at the end: as much as one piece is kept until then.
    if (length <= size) continue
    let all: Uint8Array = held.length === 1 ? chunk : Buffer.concat(held, length)
    while (all.length > size) {
      yield all.subarray(0, size)
      all = all.subarray(size)
    }
    held = [all]
    length = all.length
  }
  yield Buffer.concat(held, length)
}

/** Encrypts; what it yields is valid until the next step. */
export async function* encryptedFrames(source: AsyncIterable<Uint8Array>, key: Uint8Array): AsyncGenerator<Buffer> {
  let index = 0
  let next: Uint8Array | undefined
  for await (const piece of pieces(source, plainBytes)) {
    if (next !== undefined) yield encrypt(key, index++, next, false)
    next = piece
  }
  yield encrypt(key, index, next ?? Buffer.alloc(0), true)
}

/**
 * Decrypts. Nothing of a frame is yielded before that frame was authenticated; that the end was not cut off is known at the end only.
 * @throws ArchiveError `damaged`
 */
export async function* decryptedFrames(
  source: AsyncIterable<Uint8Array>,
  key: Uint8Array,
  name: string,
): AsyncGenerator<Buffer> {
  let index = 0
  let next: Uint8Array | undefined
  const opened = (frame: Uint8Array, isLast: boolean): Buffer => decrypt(key, index++, frame, isLast, name)
  for await (const piece of pieces(source, frameBytes)) {
    if (next !== undefined) yield opened(next, false)
    next = piece
  }
  yield opened(next ?? Buffer.alloc(0), true)
}

function decrypt(key: Uint8Array, index: number, frame: Uint8Array, isLast: boolean, name: string): Buffer {
  const damaged = (detail: string) => new ArchiveError({ kind: 'damaged', name, detail })
  if (frame.length < tagBytes) throw damaged(`it is cut off in frame ${index}`)
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(index, isLast))
  decipher.setAuthTag(frame.subarray(frame.length - tagBytes))
  const plain = decipher.update(frame.subarray(0, frame.length - tagBytes))
  try {
    return Buffer.concat([plain, decipher.final()])
  } catch {
    throw damaged(isLast ? `frame ${index} was changed, or the end is cut off` : `frame ${index} was changed`)
  }
}
