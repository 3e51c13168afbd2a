/**
 * Keeps two processes from opening one directory. The lock is the kernel's own lock on a file, taken through SQLite
 * (Node has no call for it): it goes with the process however that ends, so there is no stale lock to tell from a live
 * one, and it holds between containers that share the directory, too.
 */
import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

/**
 * @returns what releases it
 * @throws StoreError `locked` where another process, or this one, has the directory open; `inaccessible`
 */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, 'lock')
  createOnce(path)
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    // Without a journal file of SQLite, which a full disk has no space for.
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

/** Never opens a lock file that exists: closing it again would give up a lock that this process holds on it. */
function createOnce(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Who holds the lock, by the kernel's own list (proc_locks(5)). No file says it: one that cannot be written on a full disk
 * would name an earlier process. A process outside of our container is not known by a number.
 */
function holderOf(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    const minor = (dev & 0xff) | ((dev >>> 12) & 0xfff00)
    const place = `${hex((dev >>> 8) & 0xfff)}:${hex(minor)}:${ino}`
    const line = readFileSync('/proc/locks', 'latin1')
      .split('\n')
      .map(text => text.trim().split(/\s+/))
      .find(words => words.includes(place) && !words.includes('->'))
    const pid = Number(line?.[4])
    return pid > 0 ? ` by process ${pid}` : ' by another process'
  } catch {
    return ' by another process'
  }
}

const hex = (number: number): string => number.toString(16).padStart(2, '0')
