/** Copies files by sharing blocks (reflinks), if the file system supports it. */
import { constants, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../errors.ts'

/**
 * Tests it with empty files, because these need no free block on a full disk.
 * @throws NodeJS.ErrnoException `ENOSPC` if the disk has no space even for a file name
 */
export function canShareBlocks(directory: string): boolean {
  const [from, to] = [join(directory, '.share-from'), join(directory, '.share-to')]
  try {
    writeFileSync(from, '')
    return shareBlocks(from, to)
  } finally {
    for (const file of [from, to]) rmSync(file, { force: true })
  }
}

/**
 * Copies a file by sharing its blocks, without using disk space. @returns false if the file system does not support it
 */
export function shareBlocks(from: string, to: string): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw error
    return false
  }
}
