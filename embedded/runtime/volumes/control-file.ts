/** The position where Postgres would start recovery, from its control file (`global/pg_control`). */

/**
 * PG_CONTROL_VERSION of Postgres 16 and 17, and of 18. The layout before the checkpoint's redo pointer is the same in
 * all three.
 */
const knownVersions = [1300, 1800]
const offsets = { version: 8, redo: 40 }
/** The checksum is at the end of the content; its offset differs between versions. */
const checksum = { least: 200, most: 500 }

/** CRC-32C (Castagnoli), a byte at a time. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit += 1) value = (value & 1) === 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

/** Whether the bytes end with their checksum. A torn file and a file with another layout have no valid checksum. */
function isIntact(control: Buffer): boolean {
  let crc = 0xffffffff
  for (const [offset, byte] of control.subarray(0, Math.min(checksum.most, control.length - 4)).entries()) {
    if (offset >= checksum.least && offset % 4 === 0 && control.readUInt32LE(offset) === (crc ^ 0xffffffff) >>> 0)
      return true
    crc = (crc >>> 8) ^ (table[(crc ^ byte) & 0xff] ?? 0)
  }
  return false
}

/**
 * The WAL position where recovery starts; it only moves forward. Pure.
 * @returns undefined if it is not certain
 */
export function redoOf(control: Buffer): bigint | undefined {
  if (control.length < checksum.most || !knownVersions.includes(control.readUInt32LE(offsets.version))) return undefined
  return isIntact(control) ? control.readBigUInt64LE(offsets.redo) : undefined
}
