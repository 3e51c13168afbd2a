/**
 * Frames of the store's files. A frame is one batch, stored completely or not at all: the magic `ESPL`, the length of
 * the payload and a CRC-32 of length and payload (both big-endian, 32 bits), then the payload.
 */
import { crc32 } from 'node:zlib'

const magic = Buffer.from('ESPL', 'latin1')
const headerBytes = 12
/** No batch is nearly this large, so a frame with a larger length is damaged. */
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

/** The payload of the frame at an offset; undefined if there is no complete, undamaged frame. */
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

/** The payload of a file's first frame; undefined if it is incomplete or damaged. */
export const firstPayload = (beginning: Buffer): Buffer | undefined => decodeFrame(beginning, 0)?.payload

export type Frames = {
  payloads: Buffer[]
  /** Where the last of these payloads ends in the file. */
  end: number
  /**
   * The bytes after `end`: nothing, a truncated write, damage with undamaged frames after it, or a damaged last frame
   * that was written completely.
   */
  rest: 'nothing' | 'truncated' | 'damaged' | 'damaged at the end'
}

/**
 * Reads the frames from the start of a file to the first bad frame. The store writes a batch only once the previous
 * batch is on disk. So a bad frame before an undamaged frame is damage, not a truncated write. A complete last frame
 * with a bad checksum is damage too: its write may have been acknowledged.
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
  return { payloads, end, rest: isTruncated(file.subarray(end), end) ? 'truncated' : 'damaged at the end' }
}

const sectorBytes = 512

/**
 * Whether the bytes after the last undamaged frame are a truncated write, which was never acknowledged. In a truncated
 * write, the file ends before the frame does, or part of the frame never reached the disk and reads as zeros. (A
 * payload is JSON, so it contains no zero byte.) In all other cases the frame was complete and was changed later.
 * @param at the offset of the tail in the file
 */
function isTruncated(tail: Buffer, at: number): boolean {
  // A journal may end with zeros that reserve disk space. They are not part of the write.
  const rest = tail.subarray(0, writtenBytes(tail))
  if (rest.length === 0 || hasZeroSector(rest, at)) return true
  const isComplete = rest.length >= headerBytes && headerBytes + rest.readUInt32BE(4) <= rest.length
  return !isComplete && !isCompleteExceptHeader(rest)
}

/** The number of bytes before the zeros at the end. */
export function writtenBytes(tail: Buffer): number {
  let end = tail.length
  while (end > 0 && tail[end - 1] === 0) end--
  return end
}

/** Whether `rest` contains only zeros within any disk sector. */
function hasZeroSector(rest: Buffer, at: number): boolean {
  for (let from = 0, to = sectorBytes - (at % sectorBytes); from < rest.length; from = to, to += sectorBytes) {
    if (rest.subarray(from, to).every(byte => byte === 0)) return true
  }
  return false
}

/** Whether these bytes are a complete frame whose magic or length was changed. */
function isCompleteExceptHeader(rest: Buffer): boolean {
  if (rest.length < headerBytes) return false
  const payload = rest.subarray(headerBytes)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(payload.length)
  return rest.readUInt32BE(8) === checksum(length, payload)
}
