/**
 * Postgres's checksum of a page (src/include/storage/checksum_impl.h): FNV-1a in 32 lanes. It is part of the format of
 * Postgres's files, and the same in all versions that have checksums.
 */
export const pageBytes = 8192
const lanes = 32
const rows = pageBytes / (4 * lanes)
const prime = 16_777_619
/** The header offsets of the checksum and of the end of free space (bufpage.h). The latter is 0 in an unused page. */
const checksumAt = 8
const upperAt = 14

const offsets = new Int32Array([
  ...[0x5b1f36e9, 0xb8525960, 0x02ab50aa, 0x1de66d2a, 0x79ff467a, 0x9bb9f8a3, 0x217e7cd2, 0x83e13d2c],
  ...[0xf8d4474f, 0xe39eb970, 0x42c6ae16, 0x993216fa, 0x7b093b5d, 0x98daff3c, 0xf718902a, 0x0b1c9cdb],
  ...[0xe58f764b, 0x187636bc, 0x5d7b3bb1, 0xe73de7de, 0x92bec979, 0xcca6c0b2, 0x304a0979, 0x85aa43d4],
  ...[0x783125bb, 0x6ca8eaa2, 0xe407eac6, 0x4b5cfc3e, 0x9fbf8c76, 0x15ca20be, 0xf2ca9fd3, 0x959bd756],
])
const sums = new Int32Array(lanes)

/** One step of one lane. */
const mixed = (sum: number, value: number): number => {
  const both = sum ^ value
  return Math.imul(both, prime) ^ (both >>> 17)
}

/** The expected checksum of a page. `words` are its bytes; the checksum in them counts as 0. */
function checksumOf(words: Int32Array, from: number, block: number): number {
  sums.set(offsets)
  for (let row = 0; row < rows; row++) {
    const start = from + row * lanes
    for (let lane = 0; lane < lanes; lane++) sums[lane] = mixed(sums[lane] ?? 0, words[start + lane] ?? 0)
  }
  let sum = 0
  for (let lane = 0; lane < lanes; lane++) sum ^= mixed(mixed(sums[lane] ?? 0, 0), 0)
  return (((sum ^ block) >>> 0) % 65_535) + 1
}

/** Whether the page was never written, or its checksum is correct. `at`: the offset of the page, in bytes. */
export function isPageSound(bytes: Buffer, at: number, block: number): boolean {
  if (bytes.readUInt16LE(at + upperAt) === 0) return true
  const stored = bytes.readUInt16LE(at + checksumAt)
  bytes.writeUInt16LE(0, at + checksumAt)
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, pageBytes / 4)
  const sound = checksumOf(words, 0, block) === stored
  bytes.writeUInt16LE(stored, at + checksumAt)
  return sound
}
