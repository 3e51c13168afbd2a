/**
 * Copies the tree of a volume in passes: the first ones while it is written to, the last one while nothing writes. A
 * pass copies what may have changed since the pass that copied it, so the last one is short, and exact.
 *
 * Whether a file may have changed: its size, inode, mtime or ctime differ from what they were just before it was
 * copied, or it had been changed so shortly before that copy that a later change could carry the same time. (The
 * kernel stamps files with a clock that ticks every few milliseconds, some file systems with whole seconds.) All times
 * are read from the file system itself, never from this machine's clock.
 *
 * Segments of WAL that a copy does not need are left out (wal.ts) where blocks are not shared. A copy leaves some room to others that write meanwhile (room.ts).
 *
 * Files are opened without following links and copied through their descriptor, so that a tree that belongs to another
 * user cannot lead a runtime that is root out of it.
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
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { errorCode } from '../errors.ts'
import { updateCopy, writeCopy } from './file-copy.ts'
import { requireRoom } from './room.ts'
import { canShareBlocks, shareBlocks } from './share.ts'
import { isBeforeRecovery, isUnwrittenSegment, isWalSegment, readRedo, readSegmentHeader } from './wal.ts'

/**
 * How long before a pass a change still counts as uncertain. Two seconds would do for the coarsest clock; the rest is
 * for a write that took its time stamp and then had to wait for the disk before its data arrived.
 */
const uncertainNs = 10_000_000_000n

/** Up to this size a file that may have changed is compared rather than copied. Of a longer one what differs is written again. */
const comparedBytes = 16n * 1024n * 1024n
/** Where blocks are shared: from this size on a file that may have changed is written to the disk before the last pass. */
const flushedBytes = 1024n * 1024n
const blockBytes = 1024 * 1024

type EntryKind = 'file' | 'directory' | 'link'
/** What an entry was, just before it was copied. */
export type Mark = { kind: EntryKind; size: bigint; inode: bigint; modified: bigint; changed: bigint }

export type PassResult = {
  /** Entries and bytes that this pass copied. */
  copied: number
  copiedBytes: number
  /** Those of them that do not share their blocks with the source: what the pass had to write. */
  writtenBytes: number
  /** What the whole image holds now. */
  bytes: number
}

type TreeCopy = {
  /**
   * One pass. `frozen`: nothing writes to the source, so whatever cannot be copied is an error; otherwise it is left to
   * the next pass.
   */
  pass(frozen: boolean): PassResult
}

const markOf = (kind: EntryKind, stats: BigIntStats): Mark => ({
  kind,
  size: stats.size,
  inode: stats.ino,
  modified: stats.mtimeNs,
  changed: stats.ctimeNs,
})

const kindOf = (stats: BigIntStats): EntryKind | undefined => {
  if (stats.isFile()) return 'file'
  if (stats.isDirectory()) return 'directory'
  return stats.isSymbolicLink() ? 'link' : undefined // sockets, pipes and devices are not part of an image
}

/** What an entry was copied as, and the time before which its changes were sure to show. */
type Copied = { mark: Mark; certainBefore: bigint }

/** What an entry's mark says about its copy. Pure. */
export function compareMarks(copied: Copied | undefined, mark: Mark): 'same' | 'uncertain' | 'changed' {
  if (copied === undefined) return 'changed'
  const { mark: old, certainBefore } = copied
  const alike =
    old.kind === mark.kind &&
    old.size === mark.size &&
    old.inode === mark.inode &&
    old.modified === mark.modified &&
    old.changed === mark.changed
  if (!alike) return 'changed'
  return isCertain(mark, certainBefore) ? 'same' : 'uncertain'
}

/** Whether a change after the mark was taken would show in another mark. */
const isCertain = (mark: Mark, certainBefore: bigint): boolean =>
  mark.modified < certainBefore && mark.changed < certainBefore

/** Copies `source` to `target`, which is made and must not exist, in a directory that nobody else can enter. */
export function createTreeCopy(origin: string, target: string): TreeCopy {
  const source = realpathSync(origin)
  /** By path from the root; what the target holds, and what it was copied from. */
  const known = new Map<string, Copied>()
  /** Paths at which something may be in the target, known or left by a copy that failed. */
  const begun = new Set<string>()
  mkdirSync(target, { mode: 0o700 })
  const sharesBlocks = isOnOneFileSystem(source, target) && canShareBlocks(target)

  /** The file system's own time: that of a directory that it has just made. */
  function fileSystemTime(): bigint {
    const probe = `${target}.time`
    rmSync(probe, { recursive: true, force: true })
    mkdirSync(probe)
    const time = lstatSync(probe, { bigint: true }).ctimeNs
    rmSync(probe, { recursive: true })
    return time
  }

  /** Whether the target has the entry as it is now. */
  function isCopied(path: string, mark: Mark): boolean {
    const verdict = compareMarks(known.get(path), mark)
    if (verdict !== 'uncertain') return verdict === 'same'
    if (mark.kind !== 'file') return false
    // Sharing the blocks once more reads nothing. A comparison reads the copy from the disk while Postgres is stopped: a checkpoint renames
    // segments of WAL, so all of them may have changed.
    if (sharesBlocks) return false
    // Comparing a small file is much quicker than writing it again.
    return mark.size <= comparedBytes && sameContent(join(source, path), join(target, path), mark)
  }

  /**
   * Whether to leave a file to the last pass, which copies it in any case: it may be written at this moment, and sharing its blocks takes as
   * long whatever has changed. Only what a long one has not written to the disk yet is written now.
   */
  const isLeft = (mark: Mark, certainBefore: bigint): boolean =>
    sharesBlocks && mark.kind === 'file' && !isCertain(mark, certainBefore)

  return {
    pass(frozen) {
      const certainBefore = fileSystemTime() - uncertainNs
      const seen = new Set<string>()
      /** By the directory of the segments. */
      const redos = new Map<string, bigint | undefined>()
      const result: PassResult = { copied: 0, copiedBytes: 0, writtenBytes: 0, bytes: 0 }

      const isUnneeded = (from: string, mark: Mark): boolean => {
        if (mark.kind !== 'file' || !isWalSegment(from)) return false
        const directory = dirname(from)
        if (!redos.has(directory)) redos.set(directory, readRedo(dirname(directory)))
        return isBeforeRecovery(from, mark.size, redos.get(directory)) || isUnwritten(from, mark)
      }

      const visit = (path: string): void => {
        const from = join(source, path)
        const stats = lstatSync(from, { bigint: true })
        const kind = kindOf(stats)
        if (kind === undefined) return
        const mark = markOf(kind, stats)
        // Shared ones take no room, and their Postgres need not make others.
        if (!sharesBlocks && isUnneeded(from, mark)) return
        seen.add(path)
        if (kind === 'file') result.bytes += Number(stats.size)
        // The entries of a directory are looked at in any case: its own times say nothing about their contents.
        if (isCopied(path, mark)) known.set(path, { mark, certainBefore })
        else if (!frozen && isLeft(mark, certainBefore)) {
          known.delete(path)
          if (mark.size >= flushedBytes) flush(from, mark)
        } else {
          const to = join(target, path)
          const isThere = known.get(path)?.mark.kind === kind
          if (!isThere && begun.has(path)) rmSync(to, { recursive: true, force: true })
          begun.add(path)
          known.delete(path)
          result.writtenBytes += copyEntry(from, to, mark, stats, isThere && !sharesBlocks)
          known.set(path, { mark, certainBefore })
          result.copied += 1
          if (kind === 'file') result.copiedBytes += Number(stats.size)
        }
        if (kind === 'directory') for (const name of readdirSync(from)) attempt(join(path, name))
      }
      const attempt = (path: string): void => {
        try {
          visit(path)
        } catch (error) {
          if (frozen) throw error
          known.delete(path) // gone or changed while it was copied: the next pass sees
          seen.add(path)
          if (errorCode(error) === 'ENOSPC') throw error
        }
      }

      attempt('')
      for (const path of [...known.keys()].reverse()) {
        if (seen.has(path)) continue
        known.delete(path)
        rmSync(join(target, path), { recursive: true, force: true })
      }
      if (frozen) verifyNames(source, target)
      return result
    },
  }
}

/** What was left behind under a name that the source no longer has (an entry whose copy failed half-way). */
function verifyNames(source: string, target: string): void {
  const expected = new Set(readdirSync(source))
  for (const entry of readdirSync(target, { withFileTypes: true })) {
    if (!expected.has(entry.name)) rmSync(join(target, entry.name), { recursive: true, force: true })
    else if (entry.isDirectory()) verifyNames(join(source, entry.name), join(target, entry.name))
  }
}

/** Whether a segment of WAL holds nothing. */
function isUnwritten(from: string, mark: Mark): boolean {
  const file = openSource(from, mark)
  try {
    return isUnwrittenSegment(from, mark.size, readSegmentHeader(file))
  } finally {
    closeSync(file)
  }
}

/** @param hasEarlier whether an earlier copy is there, with blocks of its own. @returns the bytes that were written */
function copyEntry(from: string, to: string, mark: Mark, stats: BigIntStats, hasEarlier: boolean): number {
  const mode = Number(stats.mode) & 0o777
  let written = 0
  if (mark.kind === 'link') {
    rmSync(to, { force: true })
    symlinkSync(readlinkSync(from), to)
  } else if (mark.kind === 'directory') {
    mkdirSync(to, { recursive: true })
    chmodSync(to, mode)
  } else written = copyFile(from, to, mark, mode, hasEarlier)
  if (process.getuid?.() === 0) lchownSync(to, Number(stats.uid), Number(stats.gid))
  return written
}

const isOnOneFileSystem = (one: string, other: string): boolean => lstatSync(one).dev === lstatSync(other).dev

/** The very file that was looked at, or an error; never what a link in its way leads to. */
function openSource(from: string, mark: Mark): number {
  const file = openSync(from, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if (fstatSync(file, { bigint: true }).ino === mark.inode && readlinkSync(`/proc/self/fd/${file}`) === from)
    return file
  closeSync(file)
  throw new Error(`${from} was replaced while it was copied`)
}

function flush(from: string, mark: Mark): void {
  const file = openSource(from, mark)
  try {
    fdatasyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** @returns the bytes that were written: none where the copy shares its blocks with the source */
function copyFile(from: string, to: string, mark: Mark, mode: number, hasEarlier: boolean): number {
  const file = openSource(from, mark)
  let written: number
  try {
    written = copyContent(file, to, mark, hasEarlier)
  } finally {
    closeSync(file)
  }
  chmodSync(to, mode)
  return written
}

function copyContent(file: number, to: string, mark: Mark, hasEarlier: boolean): number {
  if (hasEarlier && mark.size > comparedBytes) {
    requireRoom(dirname(to), Math.max(0, Number(mark.size - lstatSync(to, { bigint: true }).size)))
    return updateCopy(file, to)
  }
  if (shareBlocks(`/proc/self/fd/${file}`, to)) return 0
  requireRoom(dirname(to), Number(mark.size))
  return writeCopy(file, to)
}

const [ours, theirs] = [Buffer.allocUnsafe(blockBytes), Buffer.allocUnsafe(blockBytes)]

function sameContent(from: string, to: string, mark: Mark): boolean {
  const source = openSource(from, mark)
  try {
    const copy = openSync(to, constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      for (;;) {
        const length = readSync(source, ours)
        if (readSync(copy, theirs) !== length) return false
        if (length === 0) return true
        if (ours.compare(theirs, 0, length, 0, length) !== 0) return false
      }
    } finally {
      closeSync(copy)
    }
  } finally {
    closeSync(source)
  }
}
