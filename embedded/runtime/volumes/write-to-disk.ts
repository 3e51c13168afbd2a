/** Flushes copied files to the disk. */
import { execFile } from 'node:child_process'
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { promisify } from 'node:util'
import type { Logger } from 'pino'

const run = promisify(execFile)

/**
 * A copy that is reported as ready must survive a power failure. One call for its complete file system is by far the
 * fastest way.
 */
export async function writeToDisk(path: string, logger: Logger): Promise<void> {
  try {
    await run('sync', ['-f', path])
  } catch (error) {
    logger.warn({ err: error, path }, 'could not flush a copy to the disk')
  }
}

/**
 * Makes a rename in a directory durable. The volumes may be on another file system than the store, which syncs itself.
 */
export function flushDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
