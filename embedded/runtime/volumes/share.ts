/** Copies files by sharing blocks (reflinks), if the file system supports it. */
import { constants, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../errors.ts'

/**
 * Tests it with empty files: those need no free block on a full disk.
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

/** Uses no disk space, if the file system supports it. @returns whether it did */
export function shareBlocks(from: string, to: string): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw error
    return false
  }
}
