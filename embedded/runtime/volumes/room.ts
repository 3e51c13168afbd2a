/**
 * Room on the disk that all volumes share. A copy that took the last of it would stop the very database that it is made of, so some is
 * left to those who write meanwhile; and no database could even start with less.
 */
import { statfsSync } from 'node:fs'

const leastFreeBytes = 64 * 1024 * 1024

/** Whether enough is left where so many bytes more are written. Pure. */
export const leavesRoom = ({ bavail, bsize }: { bavail: number; bsize: number }, bytes: number): boolean =>
  bavail * bsize - bytes >= leastFreeBytes

/** @throws with the code ENOSPC where it is not */
export function requireRoom(directory: string, bytes = 0): void {
  if (!leavesRoom(statfsSync(directory), bytes)) throw Object.assign(new Error('the disk is full'), { code: 'ENOSPC' })
}
