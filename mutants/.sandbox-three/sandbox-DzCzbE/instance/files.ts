/**
 * Changes to files that survive a power cut: a file is replaced whole or not at all, and what was reported done is on
 * the disk.
 */
// @ts-nocheck

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

/** The text of a file, or undefined where there is none. */
export function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Makes the entries of a directory (files made, renamed, removed) last. */
export function syncDirectory(path: string): void {
  const descriptor = openSync(path, 'r')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Puts a text into a file, atomically and durably, mode 0600. A file that holds it already is left alone, so that a
 * start on a full disk writes nothing it need not.
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

/** Removes a file, durably; one that is not there is no error. */
export function removeDurably(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (isMissing(error)) return
    throw error
  }
  syncDirectory(dirname(path))
}

/** Renames within one directory, durably. A directory with entries is never overwritten. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to)
  syncDirectory(dirname(to))
}
