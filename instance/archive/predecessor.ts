/**
 * Links a WAL segment to the previous segment. Of two servers with one identity, each may have archived one of the two
 * segments. Postgres replays both if a record ends exactly at the segment border. So the salt of an archived segment
 * (archive/object/header.ts) has a hash of the previous segment's SHA-256. Any other salt is random.
 */
import { createHash, randomBytes } from 'node:crypto'
import { segmentName, segmentStart } from './wal.ts'

const tag = Buffer.from('PREV', 'latin1')
const randomEnd = 16
const saltBytes = 32

const hashOf = (begin: Buffer, sha256: Buffer): Buffer =>
  createHash('sha256')
    .update(begin)
    .update(sha256)
    .digest()
    .subarray(0, saltBytes - randomEnd)

/** A salt with 12 random bytes that identifies the previous segment. @param sha256 the previous segment's SHA-256 */
export function saltAfter(sha256: Buffer): Buffer {
  const begin = Buffer.concat([tag, randomBytes(randomEnd - tag.length)])
  return Buffer.concat([begin, hashOf(begin, sha256)])
}

/** Whether an object with this salt follows another segment than `sha256`. False if the salt is random. */
export function followsOther(salt: Buffer, sha256: Buffer): boolean {
  if (salt.length !== saltBytes || !tag.equals(salt.subarray(0, tag.length))) return false
  return !hashOf(salt.subarray(0, randomEnd), sha256).equals(salt.subarray(randomEnd))
}

/** The previous segment on the same timeline. Undefined for the first segment of WAL. */
export function segmentBefore(name: string, segmentBytes: bigint): string | undefined {
  const start = segmentStart(name, segmentBytes)
  return start === 0n
    ? undefined
    : segmentName(Number.parseInt(name.slice(0, 8), 16), start - segmentBytes, segmentBytes)
}
