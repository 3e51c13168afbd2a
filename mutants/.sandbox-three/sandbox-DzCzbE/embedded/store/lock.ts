/**
 * Keeps two processes from opening one directory. The lock is the kernel's own lock on a file, taken through SQLite
 * (Node has no call for it): it goes with the process however that ends, so there is no stale lock to tell from a live
 * one, and it holds between containers that share the directory, too.
 */
// @ts-nocheck

import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StoreError } from './errors.ts'

/**
 * @returns what releases it
 * @throws StoreError `locked` where another process, or this one, has the directory open
 */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, 'lock')
  createOnce(path)
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    const holder = holderOf(directory)
    throw new StoreError('locked', `${directory} is in use${holder}: one process at a time may open a store`, {
      cause: error,
    })
  }
  tellOwner(directory)
  return () => database.close()
}

/** Never opens a lock file that exists: closing it again would give up a lock that this process holds on it. */
function createOnce(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Says who holds the lock, for the message to whoever does not get it; a full disk is no reason not to open. */
function tellOwner(directory: string): void {
  try {
    writeFileSync(join(directory, 'owner'), `${process.pid}\n`, { mode: 0o600 })
  } catch {
    // The lock holds without it.
  }
}

function holderOf(directory: string): string {
  try {
    return ` by process ${readFileSync(join(directory, 'owner'), 'utf8').trim()}`
  } catch {
    return ''
  }
}
