/**
 * Copies single files, links and directories. It opens files without following links and copies through their
 * descriptor. So the tree of another user cannot make a runtime that is root read or write outside the tree.
 */
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  readSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { updateCopy, writeCopy } from './file-copy.ts'
import type { Fingerprint } from './fingerprint.ts'
import { requireFreeSpace } from './free-space.ts'
import { shareBlocks } from './share.ts'

/**
 * Up to this size, a file that may have changed is compared before it is copied. For a larger file, only changed blocks
 * are written.
 */
export const comparedBytes = 16n * 1024n * 1024n
const blockBytes = 1024 * 1024

/**
 * Copies one entry. `hasEarlier`: an earlier copy exists that shares no blocks. Returns the number of written bytes.
 */
export function copyEntry(
  from: string,
  to: string,
  fingerprint: Fingerprint,
  stats: BigIntStats,
  hasEarlier: boolean,
): number {
  const mode = Number(stats.mode) & 0o777
  let written = 0
  if (fingerprint.kind === 'link') {
    rmSync(to, { force: true })
    symlinkSync(readlinkSync(from), to)
  } else if (fingerprint.kind === 'directory') {
    mkdirSync(to, { recursive: true })
    chmodSync(to, mode)
  } else written = copyFile(from, to, fingerprint, mode, hasEarlier)
  if (process.getuid?.() === 0) lchownSync(to, Number(stats.uid), Number(stats.gid))
  return written
}

/**
 * Opens the file with this fingerprint. @throws Error if another file is at its path, or if the path contains a link
 */
export function openSource(from: string, fingerprint: Fingerprint): number {
  const file = openSync(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if (fstatSync(file, { bigint: true }).ino === fingerprint.inode && readlinkSync(`/proc/self/fd/${file}`) === from)
    return file
  closeSync(file)
  throw new Error(`${from} was replaced while it was copied`)
}

export function flush(from: string, fingerprint: Fingerprint): void {
  const file = openSource(from, fingerprint)
  try {
    fdatasyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Returns the number of written bytes; 0 if the copy shares its blocks with the source. */
function copyFile(from: string, to: string, fingerprint: Fingerprint, mode: number, hasEarlier: boolean): number {
  const file = openSource(from, fingerprint)
  let written: number
  try {
    written = copyContent(file, to, fingerprint, hasEarlier)
  } finally {
    closeSync(file)
  }
  chmodSync(to, mode)
  return written
}

function copyContent(file: number, to: string, fingerprint: Fingerprint, hasEarlier: boolean): number {
  if (hasEarlier && fingerprint.size > comparedBytes) {
    requireFreeSpace(dirname(to), Math.max(0, Number(fingerprint.size - lstatSync(to, { bigint: true }).size)))
    return updateCopy(file, to)
  }
  if (shareBlocks(`/proc/self/fd/${file}`, to)) return 0
  requireFreeSpace(dirname(to), Number(fingerprint.size))
  return writeCopy(file, to)
}

const [sourceBlock, copyBlock] = [Buffer.allocUnsafe(blockBytes), Buffer.allocUnsafe(blockBytes)]

export function sameContent(from: string, to: string, fingerprint: Fingerprint): boolean {
  const source = openSource(from, fingerprint)
  try {
    const copy = openSync(to, constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      for (;;) {
        const length = readSync(source, sourceBlock)
        if (readSync(copy, copyBlock) !== length) return false
        if (length === 0) return true
        if (sourceBlock.compare(copyBlock, 0, length, 0, length) !== 0) return false
      }
    } finally {
      closeSync(copy)
    }
  } finally {
    closeSync(source)
  }
}
