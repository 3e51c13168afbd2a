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

export type Frames = {
  payloads: Buffer[]
  /** Where the last sound frame ends. */
  end: number
  /** What stands after it: nothing, the rest of a write that was cut off, or damage with sound frames behind it. */
  rest: 'nothing' | 'torn' | 'damaged'
}

/**
 * All sound frames from the start of a file. A batch is written only once the one before it is on disk, so a bad frame
 * with a sound one behind it cannot be a write that was cut off: it is damage.
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
  return { payloads, end, rest: 'torn' }
}
