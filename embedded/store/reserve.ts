/**
 * The store's reserve: a file of zeros that allocates disk space in advance. On a full disk the file becomes the next
 * journal, so that the installation can start and users can delete databases. The store overwrites the reserve's
 * blocks in place. It keeps these blocks while the disk is full, because a database would use freed blocks at once.
 */
import { open, rename, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeFrame } from './frames.ts'

const reserveName = 'reserve'
const unfinishedReserve = 'reserve.new'
const chunkBytes = 1024 * 1024
/** Free space that must remain for databases after a reserve is created. */
const leastFreeBytes = 64 * 1024 * 1024

export const isFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')

/** Whether a directory's file system has this many free bytes in addition to the space for databases. */
export async function hasSpace(directory: string, bytes: number): Promise<boolean> {
  const { bavail, bsize } = await statfs(directory)
  return bavail * bsize >= bytes + leastFreeBytes
}

export const hasReserve = (directory: string): Promise<boolean> =>
  stat(join(directory, reserveName)).then(
    () => true,
    () => false,
  )

/**
 * Creates the reserve if it is missing and the disk has space for it.
 * @param syncNames makes the directory's names durable
 */
export async function makeReserve(directory: string, bytes: number, syncNames: () => Promise<void>): Promise<void> {
  if (bytes === 0 || (await hasReserve(directory)) || !(await hasSpace(directory, bytes))) return
  const path = join(directory, unfinishedReserve)
  try {
    const file = await open(path, 'w', 0o600)
    try {
      const zeros = Buffer.alloc(Math.min(chunkBytes, bytes))
      for (let at = 0; at < bytes; at += zeros.length)
        await file.write(zeros, 0, Math.min(zeros.length, bytes - at), at)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(path, join(directory, reserveName))
    await syncNames()
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}

export const dropReserve = (directory: string): Promise<void> => rm(join(directory, reserveName), { force: true })

/**
 * Writes the header to the reserve, and renames the reserve to this journal name.
 * @returns the reserve's size in bytes
 */
export async function spendReserve(
  directory: string,
  name: string,
  header: Buffer,
  syncNames: () => Promise<void>,
): Promise<number> {
  const path = join(directory, reserveName)
  const frame = encodeFrame(header)
  const file = await open(path, 'r+')
  let size = 0
  try {
    await file.write(frame, 0, frame.length, 0)
    await file.sync()
    size = (await file.stat()).size
  } finally {
    await file.close()
  }
  await rename(path, join(directory, name))
  await syncNames()
  return size
}
