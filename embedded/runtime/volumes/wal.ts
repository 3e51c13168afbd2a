/**
 * Segments of Postgres's WAL that hold nothing: made ready for later, or recycled and not written to yet. Nothing reads
 * them, so whole copies are made without them; they are up to two thirds of a small database that is written to.
 */
import { readSync } from 'node:fs'

const segmentPath = /\/pg_wal\/[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/
/** XLogPageHeaderData: where in the WAL a page stands, after magic, info and timeline. */
const addressOffset = 8
const headerBytes = 16
const segmentBytes = { least: 2 ** 20, most: 2 ** 30 }

/** Whether a file is a segment by its name. */
export const isWalSegment = (path: string): boolean => segmentPath.test(path)

/**
 * Whether the first page of a segment is of another place in the WAL than its name says. Postgres writes pages in their
 * order, and recovery ends at a page of another place: so it reads none of this file. Pure.
 * @param size of the file
 */
export function isUnwrittenSegment(path: string, size: bigint, header: Buffer): boolean {
  const [, high, low] = segmentPath.exec(path) ?? []
  const isWhole = size >= segmentBytes.least && size <= segmentBytes.most && (size & (size - 1n)) === 0n
  if (high === undefined || low === undefined || !isWhole || header.length < headerBytes) return false
  const segment = BigInt(`0x${high}`) * (2n ** 32n / size) + BigInt(`0x${low}`)
  return header.readBigUInt64LE(addressOffset) !== segment * size
}

/** @param file open for reading */
export function readSegmentHeader(file: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  return header.subarray(0, readSync(file, header, 0, headerBytes, 0))
}
