/**
 * The framing of the store's files: each frame is one batch that is there whole or not at all. A frame is the magic
 * `ESPL`, the length of the payload and a CRC-32 of length and payload (both big-endian, 32 bits), then the payload.
 */
import { crc32 } from 'node:zlib'

const magic = Buffer.from('ESPL', 'latin1')
const headerBytes = 12
/** Far above any batch that is written: a length beyond it was never a length. */
const largestPayload = 256 * 1024 * 1024

const checksum = (length: Buffer, payload: Buffer): number => crc32(payload, crc32(length))

export function encodeFrame(payload: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(headerBytes + payload.length)
  magic.copy(frame)
  frame.writeUInt32BE(payload.length, 4)
  payload.copy(frame, headerBytes)
  frame.writeUInt32BE(checksum(frame.subarray(4, 8), payload), 8)
  return frame
}

/** The payload of the frame at an offset, or undefined where no whole and sound frame is. */
function decodeFrame(file: Buffer, offset: number): { payload: Buffer; end: number } | undefined {
  if (offset + headerBytes > file.length) return undefined
  if (!magic.equals(file.subarray(offset, offset + 4))) return undefined
  const length = file.readUInt32BE(offset + 4)
  const end = offset + headerBytes + length
  if (length > largestPayload || end > file.length) return undefined
  const payload = file.subarray(offset + headerBytes, end)
  if (file.readUInt32BE(offset + 8) !== checksum(file.subarray(offset + 4, offset + 8), payload)) return undefined
  return { payload, end }
}

/** The payload of a file's first frame, from the file's beginning; undefined where none is there whole and sound. */
export const firstPayload = (beginning: Buffer): Buffer | undefined => decodeFrame(beginning, 0)?.payload

export type Frames = {
  payloads: Buffer[]
  /** Where the last sound frame ends. */
  end: number
  /**
   * What stands after it: nothing, the rest of a write that was cut off, damage with sound frames behind it, or a last
   * frame that was written whole and is damaged.
   */
  rest: 'nothing' | 'torn' | 'damaged' | 'damaged at the end'
}

/**
 * All sound frames from the start of a file. A batch is written only once the one before it is on disk, so a bad frame
 * with a sound one behind it cannot be a write that was cut off: it is damage. So is a last frame that is there to its
 * end: whoever wrote it may have been told that it is safe.
 */
export function decodeFrames(file: Buffer): Frames {
  const payloads: Buffer[] = []
  let end = 0
  for (let frame = decodeFrame(file, end); frame !== undefined; frame = decodeFrame(file, end)) {
    payloads.push(frame.payload)
    end = frame.end
  }
  if (end === file.length) return { payloads, end, rest: 'nothing' }
  for (let next = file.indexOf(magic, end + 1); next !== -1; next = file.indexOf(magic, next + 1)) {
    if (decodeFrame(file, next) !== undefined) return { payloads, end, rest: 'damaged' }
  }
  return { payloads, end, rest: isCutOff(file.subarray(end), end) ? 'torn' : 'damaged at the end' }
}

const sectorBytes = 512

/**
 * Whether what stands behind the last sound frame is a write that was cut off, which nobody was told of: it ends before
 * its frame does, or a part of it never came to the disk and reads as zeros. (No payload holds a zero: it is JSON.) Anything
 * else was there whole, and has been changed since.
 * @param at where in its file it stands
 */
function isCutOff(tail: Buffer, at: number): boolean {
  // A journal may have zeros behind it, that keep space on the disk: only what was written is looked at.
  const rest = tail.subarray(0, writtenBytes(tail))
  if (rest.length === 0 || hasUnwritten(rest, at)) return true
  const isWhole = rest.length >= headerBytes && headerBytes + rest.readUInt32BE(4) <= rest.length
  return !isWhole && !isSoundButForItsHeader(rest)
}

/** How much of it stands before the zeros at its end. */
export function writtenBytes(tail: Buffer): number {
  let end = tail.length
  while (end > 0 && tail[end - 1] === 0) end--
  return end
}

/** Whether a sector of the disk, or the part of it that is meant, is all zeros. */
function hasUnwritten(rest: Buffer, at: number): boolean {
  for (let from = 0, to = sectorBytes - (at % sectorBytes); from < rest.length; from = to, to += sectorBytes) {
    if (rest.subarray(from, to).every(byte => byte === 0)) return true
  }
  return false
}

/** Whether it is a whole frame that reaches to the end, with another length or another magic than it was given. */
function isSoundButForItsHeader(rest: Buffer): boolean {
  if (rest.length < headerBytes) return false
  const payload = rest.subarray(headerBytes)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(payload.length)
  return rest.readUInt32BE(8) === checksum(length, payload)
}
