/** Prepares the log's directory before each start. */
import { lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readIfPresent, syncDirectory, writeDurably } from '../files.ts'
import { logDirectory, ownerFile, preparedFile } from './directory.ts'

/**
 * Whether the directory belongs to this owner and was created by this user. A copied volume contains the log of its
 * source, which the copy's owner must not see.
 */
function isOwn(directory: string, owner: string): boolean {
  try {
    const stats = lstatSync(directory)
    return (
      stats.isDirectory() && stats.uid === process.getuid?.() && readIfPresent(join(directory, ownerFile)) === owner
    )
  } catch {
    return false
  }
}

function recreate(root: string, directory: string, owner: string): void {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { mode: 0o700 })
  writeDurably(join(directory, ownerFile), owner)
  syncDirectory(root)
}

/** On a full disk this file cannot be written: then Postgres prints its log (operator/member/pod/start.ts). */
function writePrepared(directory: string): void {
  try {
    writeFileSync(join(directory, preparedFile), '', { mode: 0o600 })
  } catch {}
}

/**
 * Returns the log's directory in a volume's root; undefined if Postgres runs without it. Never fails, because a log
 * must not prevent a start.
 */
export function prepareLog(root: string, owner: string): string | undefined {
  const directory = join(root, logDirectory)
  try {
    if (!isOwn(directory, owner)) recreate(root, directory, owner)
    writePrepared(directory)
    return directory
  } catch {
    return undefined
  }
}
