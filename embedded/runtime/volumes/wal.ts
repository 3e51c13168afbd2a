/**
 * Segments of Postgres's WAL that a copy does not need: those that hold nothing (made ready for later, or recycled and not written to yet),
 * and those before the place where recovery begins (kept by the source for its own use, e.g. until they are summarised). Whole copies are
 * made without them: together they can be as much as the data.
 */
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { redoOf } from './control-file.ts'

const segmentPath = /\/pg_wal\/[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/
/** XLogPageHeaderData: where in the WAL a page stands, after magic, info and timeline. */
const addressOffset = 8
const headerBytes = 16
/** PG_CONTROL_FILE_SIZE. */
const controlBytes = 8192
const segmentBytes = { least: 2 ** 20, most: 2 ** 30 }

/** Whether a file is a segment by its name. */
export const isWalSegment = (path: string): boolean => segmentPath.test(path)

/** Which segment a file is, counted from 0; undefined where it is none, or not whole. */
function segmentNumber(path: string, size: bigint): bigint | undefined {
  const [, high, low] = segmentPath.exec(path) ?? []
  const isWhole = size >= segmentBytes.least && size <= segmentBytes.most && (size & (size - 1n)) === 0n
  if (high === undefined || low === undefined || !isWhole) return undefined
  return BigInt(`0x${high}`) * (2n ** 32n / size) + BigInt(`0x${low}`)
}

/**
 * Whether a segment ends before the place where recovery begins, on whatever timeline: nothing reads it in a copy. Pure.
 * @param redo of the control file; undefined where that is not certain
 */
export function isBeforeRecovery(path: string, size: bigint, redo: bigint | undefined): boolean {
  const segment = segmentNumber(path, size)
  return segment !== undefined && redo !== undefined && (segment + 1n) * size <= redo
}

/** @param dataDirectory of Postgres. @returns where it would begin to recover; undefined where that is not certain */
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
 * Whether the first page of a segment is of another place in the WAL than its name says. Postgres writes pages in their
 * order, and recovery ends at a page of another place: so it reads none of this file. Pure.
 * @param size of the file
 */
export function isUnwrittenSegment(path: string, size: bigint, header: Buffer): boolean {
  const segment = segmentNumber(path, size)
  if (segment === undefined || header.length < headerBytes) return false
  return header.readBigUInt64LE(addressOffset) !== segment * size
}

/** @param file open for reading */
export function readSegmentHeader(file: number): Buffer {
  const header = Buffer.alloc(headerBytes)
  return header.subarray(0, readSync(file, header, 0, headerBytes, 0))
}
