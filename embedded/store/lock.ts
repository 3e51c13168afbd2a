/**
 * Keeps two processes from opening one directory. It uses the kernel's lock on a file, through SQLite, because Node has
 * no call for such a lock. The kernel releases the lock when the process ends, so a lock never becomes stale. The lock
 * also works between containers that share the directory.
 */
import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

/**
 * @returns a function that releases the lock
 * @throws StoreError `locked` if this or another process has the directory open; `inaccessible`
 */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, 'lock')
  createOnce(path)
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    // SQLite must not create a journal file: a full disk has no space for it.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (!isBusy(error)) {
      const why = error instanceof Error ? error.message : String(error)
      throw new StoreError('inaccessible', `${path} cannot be locked: ${why}`, { cause: error })
    }
    const holder = holderOf(path)
    throw new StoreError('locked', `${directory} is in use${holder}: one process at a time may open a store`, {
      cause: error,
    })
  }
  return () => database.close()
}

/** SQLITE_BUSY. */
const isBusy = (error: unknown): boolean => error instanceof Error && 'errcode' in error && error.errcode === 5

/** Never opens an existing lock file, because closing the file would release this process's lock on it. */
function createOnce(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Finds the lock's owner in the kernel's list (proc_locks(5)). No file contains the owner's process id: on a full
 * disk the id could not be written, and the file would name an earlier process. The id of a process outside this
 * container is unknown.
 */
function holderOf(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    const minor = (dev & 0xff) | ((dev >>> 12) & 0xfff00)
    const device = `${hex((dev >>> 8) & 0xfff)}:${hex(minor)}:${ino}`
    const line = readFileSync('/proc/locks', 'latin1')
      .split('\n')
      .map(text => text.trim().split(/\s+/))
      .find(fields => fields.includes(device) && !fields.includes('->'))
    const pid = Number(line?.[4])
    return pid > 0 ? ` by process ${pid}` : ' by another process'
  } catch {
    return ' by another process'
  }
}

const hex = (number: number): string => number.toString(16).padStart(2, '0')
