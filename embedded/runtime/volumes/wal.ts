/**
 * WAL segments that a copy does not need. Some have no records, because they are preallocated, or recycled and not
 * written yet. Others are before the position where recovery starts; the source retains them for its own use, for
 * example until they are summarised. Complete copies omit both, because together they can be as large as the data.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { redoOf } from './control-file.ts'

const segmentPath = /\/pg_wal\/[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/
/** XLogPageHeaderData: the page's WAL position, after magic, info and timeline. */
const addressOffset = 8
const headerBytes = 16
/** PG_CONTROL_FILE_SIZE. */
const controlBytes = 8192
const segmentBytes = { least: 2 ** 20, most: 2 ** 30 }

/** Whether this is the file name of a segment. */
export const isWalSegment = (path: string): boolean => segmentPath.test(path)

/** A segment's number, counted from 0; undefined for other files and incomplete segments. */
function segmentNumber(path: string, size: bigint): bigint | undefined {
  const [, high, low] = segmentPath.exec(path) ?? []
  const isValidSize = size >= segmentBytes.least && size <= segmentBytes.most && (size & (size - 1n)) === 0n
  if (high === undefined || low === undefined || !isValidSize) return undefined
  return BigInt(`0x${high}`) * (2n ** 32n / size) + BigInt(`0x${low}`)
}

/**
 * Whether a segment ends before the position where recovery starts, on any timeline. Then a copy does not read it.
 * Pure.
 * @param redo the position in the control file; undefined if it is not certain
 */
export function isBeforeRecovery(path: string, size: bigint, redo: bigint | undefined): boolean {
  const segment = segmentNumber(path, size)
  return segment !== undefined && redo !== undefined && (segment + 1n) * size <= redo
}

/**
 * @param dataDirectory Postgres's data directory. @returns the position where recovery would start; undefined if it is
 * not certain
 */
export function readRedo(dataDirectory: string): bigint | undefined {
  let file: number
  try {
    file = openSync(
      join(dataDirectory, 'global', 'pg_control'),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    )
  } catch {
    return undefined
  }
  try {
    const control = Buffer.alloc(controlBytes)
    return redoOf(control.subarray(0, readSync(file, control, 0, controlBytes, 0)))
  } catch {
    return undefined
  } finally {
    closeSync(file)
  }
}

/**
 * Whether the first page of a segment has another WAL position than the segment's name. Postgres writes pages in order,
 * and recovery ends at a page with another position, so recovery reads nothing of this file. Pure.
 * @param size the size of the file
 */
export function isUnwrittenSegment(path: string, size: bigint, header: Buffer): boolean {
  const segment = segmentNumber(path, size)
  if (segment === undefined || header.length < headerBytes) return false
  return header.readBigUInt64LE(addressOffset) !== segment * size
}

/** @param file a descriptor, open for reading */
export function readSegmentHeader(file: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  return header.subarray(0, readSync(file, header, 0, headerBytes, 0))
}
