/** What has been copied is forced to the disk. */
import { execFile } from 'node:child_process'
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Logger } from 'pino'

const run = promisify(execFile)

/** What is reported ready must survive a power cut; one call for its whole file system is by far the fastest. */
export async function writeToDisk(path: string, logger: Logger): Promise<void> {
  try {
    await run('sync', ['-f', path])
  } catch (error) {
    logger.warn({ err: error, path }, 'a copy could not be forced to the disk')
  }
}

/** Makes what was renamed into a directory last: the file system of the volumes may be another one than that of the store, which is synced. */
export function flushDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
