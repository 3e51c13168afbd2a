/**
 * The border of two WAL segments. Each of two servers of one identity may have archived one of them, and Postgres
 * replays both if a record ends where a segment does. So an archived segment names the content before it: its salt
 * (archive/object/header.ts) has a hash of that content's SHA-256. Any other salt is random and names nothing.
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

/** A salt with 12 random bytes that names the content before an object. @param sha256 of that content */
export function saltAfter(sha256: Buffer): Buffer {
  const begin = Buffer.concat([tag, randomBytes(randomEnd - tag.length)])
  return Buffer.concat([begin, hashOf(begin, sha256)])
}

/** Whether an object with this salt follows other content. False if the salt names nothing. */
export function followsOther(salt: Buffer, sha256: Buffer): boolean {
  if (salt.length !== saltBytes || !tag.equals(salt.subarray(0, tag.length))) return false
  return !hashOf(salt.subarray(0, randomEnd), sha256).equals(salt.subarray(randomEnd))
}

/** The segment before another one on its timeline; undefined if that is the first position of WAL. */
export function segmentBefore(name: string, segmentBytes: bigint): string | undefined {
  const start = segmentStart(name, segmentBytes)
  return start === 0n
    ? undefined
    : segmentName(Number.parseInt(name.slice(0, 8), 16), start - segmentBytes, segmentBytes)
}
