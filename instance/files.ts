/**
 * File changes that survive a power failure. A file is replaced completely or not at all, and a completed change is on
 * disk.
 */
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT'

/** The text of a file; undefined if it does not exist. */
export function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Makes changes of directory entries (files created, renamed, removed) durable. */
export function syncDirectory(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Writes a text to a file, atomically and durably, mode 0600. An equal file is not written, so that a start on a full
 * disk writes as little as possible.
 */
export function writeDurably(path: string, content: string): void {
  if (readIfPresent(path) === content) return
  const temporary = `${path}.new`
  rmSync(temporary, { force: true })
  const descriptor = openSync(temporary, 'wx', 0o600)
  try {
    fchmodSync(descriptor, 0o600)
    writeFileSync(descriptor, content)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
  renameSync(temporary, path)
  syncDirectory(dirname(path))
}

/** Removes a file durably. A missing file is not an error. */
export function removeDurably(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  syncDirectory(dirname(path))
}

/** Renames within one directory, durably. Never overwrites a directory with entries. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to)
  syncDirectory(dirname(to))
}
