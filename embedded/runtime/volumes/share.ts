/** Files that share their blocks with another one, where the file system can. */
import { constants, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '../errors.ts'

/**
 * Tries it with empty files of its own: those need no free block on a full disk.
 * @throws NodeJS.ErrnoException `ENOSPC` where the disk has no space even for a file's name
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

/** Where the file system can, which takes no room. @returns whether it did */
export function shareBlocks(from: string, to: string): boolean {
  try {
    copyFileSync(from, to, constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw error
    return false
  }
}
