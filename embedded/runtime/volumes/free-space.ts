/**
 * Checks the free space on the disk that all volumes share. A copy that used up the disk would stop the source
 * database. So some space is kept for concurrent writers; with less, no database could even start.
 */
import { statfsSync } from 'node:fs'

const leastFreeBytes = 64 * 1024 * 1024

/** Whether enough space remains after this many more bytes are written. Pure. */
export const leavesFreeSpace = ({ bavail, bsize }: { bavail: number; bsize: number }, bytes: number): boolean =>
  bavail * bsize - bytes >= leastFreeBytes

/** @throws an error with the code ENOSPC if too little space remains */
export function requireFreeSpace(directory: string, bytes = 0): void {
  if (!leavesFreeSpace(statfsSync(directory), bytes))
    throw Object.assign(new Error('the disk is full'), { code: 'ENOSPC' })
}
