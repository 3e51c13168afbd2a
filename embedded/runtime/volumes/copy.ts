/**
 * Copies a volume's tree in passes. The first passes run while Postgres writes to the volume; during the last pass,
 * nothing writes. A pass copies the entries that may have changed since an earlier pass copied them (fingerprint.ts).
 * So the last pass is short and the copy is exact.
 *
 * If blocks are not shared, the copy omits WAL segments that it does not need (wal.ts). A copy leaves some disk space
 * to concurrent writers (free-space.ts).
 */
import { type BigIntStats, closeSync, lstatSync, mkdirSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { errorCode } from '../errors.ts'
import { comparedBytes, copyEntry, flush, openSource, sameContent } from './copy-entry.ts'
import { type Copied, compareFingerprints, type Fingerprint, fingerprintOf, isCertain, kindOf } from './fingerprint.ts'
import { canShareBlocks } from './share.ts'
import { isBeforeRecovery, isUnwrittenSegment, isWalSegment, readRedo, readSegmentHeader } from './wal.ts'

/**
 * How long before a pass a change still counts as uncertain. The coarsest file system clock needs 2 s. The rest covers
 * a write that got its time stamp and then waited for the disk before it changed the file.
 */
const uncertainNs = 10_000_000_000n

/** If blocks are shared, files that may have changed and are at least this large are flushed before the last pass. */
const flushedBytes = 1024n * 1024n

export type PassResult = {
  /** Entries and bytes that this pass copied. */
  copied: number
  copiedBytes: number
  /** The bytes that the pass wrote, without blocks that the copy shares with the source. */
  writtenBytes: number
  /** The size of all files. */
  bytes: number
}

type TreeCopy = {
  /** Runs one pass. If `frozen`, nothing writes to the source, so an entry that cannot be copied is an error. */
  pass(frozen: boolean): PassResult
}

/**
 * Prepares a copy of `origin`. Creates `target`, which must not exist, in a directory that only this user can enter.
 */
export function createTreeCopy(origin: string, target: string): TreeCopy {
  return new Copy(realpathSync(origin), target)
}

class Copy implements TreeCopy {
  readonly #source: string
  readonly #target: string
  readonly #sharesBlocks: boolean
  /** By path from the root: the entries of the target, and their source. */
  readonly #known = new Map<string, Copied>()
  /** Paths that may exist in the target, also those of a failed copy. */
  readonly #begun = new Set<string>()

  constructor(source: string, target: string) {
    mkdirSync(target, { mode: 0o700 })
    this.#source = source
    this.#target = target
    this.#sharesBlocks = isOnOneFileSystem(source, target) && canShareBlocks(target)
  }

  pass(frozen: boolean): PassResult {
    const pass: Pass = {
      frozen,
      certainBefore: this.#fileSystemTime() - uncertainNs,
      seen: new Set(),
      redos: new Map(),
      result: { copied: 0, copiedBytes: 0, writtenBytes: 0, bytes: 0 },
    }
    this.#tryEntry('', pass)
    this.#removeUnseen(pass.seen)
    if (frozen) verifyNames(this.#source, this.#target)
    return pass.result
  }

  /**
   * Copies an entry and the entries below it. Unless frozen, leaves an entry that cannot be copied to the next pass.
   */
  #tryEntry(path: string, pass: Pass): void {
    try {
      this.#visit(path, pass)
    } catch (error) {
      if (pass.frozen) throw error
      this.#known.delete(path) // the entry was deleted or changed during the copy; the next pass handles it
      pass.seen.add(path)
      if (errorCode(error) === 'ENOSPC') throw error
    }
  }

  #visit(path: string, pass: Pass): void {
    const { seen, result, frozen, certainBefore } = pass
    const from = join(this.#source, path)
    const stats = lstatSync(from, { bigint: true })
    const kind = kindOf(stats)
    if (kind === undefined) return
    const fingerprint = fingerprintOf(kind, stats)
    // Segments that share blocks take no space, and Postgres can recycle them.
    if (!this.#sharesBlocks && isUnneeded(from, fingerprint, pass)) return
    seen.add(path)
    if (kind === 'file') result.bytes += Number(stats.size)
    if (this.#isCopied(path, fingerprint)) this.#known.set(path, { fingerprint, certainBefore })
    else if (!frozen && this.#isDeferred(fingerprint, certainBefore)) {
      this.#known.delete(path)
      if (fingerprint.size >= flushedBytes) flush(from, fingerprint)
    } else this.#copy(path, fingerprint, stats, pass)
    // Visits the entries of a directory in any case, because the directory's times do not show changes inside its
    // entries.
    if (kind === 'directory') for (const name of readdirSync(from)) this.#tryEntry(join(path, name), pass)
  }

  #copy(path: string, fingerprint: Fingerprint, stats: BigIntStats, { result, certainBefore }: Pass): void {
    const to = join(this.#target, path)
    const hasEarlier = this.#known.get(path)?.fingerprint.kind === fingerprint.kind
    if (!hasEarlier && this.#begun.has(path)) rmSync(to, { recursive: true, force: true })
    this.#begun.add(path)
    this.#known.delete(path)
    result.writtenBytes += copyEntry(
      join(this.#source, path),
      to,
      fingerprint,
      stats,
      hasEarlier && !this.#sharesBlocks,
    )
    this.#known.set(path, { fingerprint, certainBefore })
    result.copied += 1
    if (fingerprint.kind === 'file') result.copiedBytes += Number(stats.size)
  }

  #removeUnseen(seen: ReadonlySet<string>): void {
    for (const path of [...this.#known.keys()].reverse()) {
      if (seen.has(path)) continue
      this.#known.delete(path)
      rmSync(join(this.#target, path), { recursive: true, force: true })
    }
  }

  /** Returns the time of the file system's own clock, read from a directory that was just created. */
  #fileSystemTime(): bigint {
    const probe = `${this.#target}.time`
    rmSync(probe, { recursive: true, force: true })
    mkdirSync(probe)
    const time = lstatSync(probe, { bigint: true }).ctimeNs
    rmSync(probe, { recursive: true })
    return time
  }

  /** Whether the target contains the current version of the entry. */
  #isCopied(path: string, fingerprint: Fingerprint): boolean {
    const comparison = compareFingerprints(this.#known.get(path), fingerprint)
    if (comparison !== 'uncertain') return comparison === 'same'
    if (fingerprint.kind !== 'file') return false
    // Sharing the blocks again reads nothing. A comparison would read the copy from disk while Postgres is stopped.
    // That can be much: a checkpoint renames WAL segments, so all of them may have changed.
    if (this.#sharesBlocks) return false
    // Comparing a small file is much faster than writing it again.
    return (
      fingerprint.size <= comparedBytes && sameContent(join(this.#source, path), join(this.#target, path), fingerprint)
    )
  }

  /**
   * Whether to skip a file until the last pass, which copies it in any case: Postgres may be writing the file, and
   * sharing its blocks takes equally long after every change. If the file is large, it is flushed before.
   */
  #isDeferred(fingerprint: Fingerprint, certainBefore: bigint): boolean {
    return this.#sharesBlocks && fingerprint.kind === 'file' && !isCertain(fingerprint, certainBefore)
  }
}

/** State of one pass. */
type Pass = {
  readonly frozen: boolean
  /** Changes before this time are visible in the fingerprints of this pass. */
  readonly certainBefore: bigint
  readonly seen: Set<string>
  /** By directory of WAL segments: the position where recovery starts. */
  readonly redos: Map<string, bigint | undefined>
  readonly result: PassResult
}

/** Whether a file is a WAL segment that recovery does not need. */
function isUnneeded(from: string, fingerprint: Fingerprint, { redos }: Pass): boolean {
  if (fingerprint.kind !== 'file' || !isWalSegment(from)) return false
  const directory = dirname(from)
  if (!redos.has(directory)) redos.set(directory, readRedo(dirname(directory)))
  return isBeforeRecovery(from, fingerprint.size, redos.get(directory)) || isUnwritten(from, fingerprint)
}

/** Deletes entries of the target that the source does not have, such as an entry whose copy failed. */
function verifyNames(source: string, target: string): void {
  const expected = new Set(readdirSync(source))
  for (const entry of readdirSync(target, { withFileTypes: true })) {
    if (!expected.has(entry.name)) rmSync(join(target, entry.name), { recursive: true, force: true })
    else if (entry.isDirectory()) verifyNames(join(source, entry.name), join(target, entry.name))
  }
}

const isOnOneFileSystem = (one: string, other: string): boolean => lstatSync(one).dev === lstatSync(other).dev

/** Whether a WAL segment holds no records. */
function isUnwritten(from: string, fingerprint: Fingerprint): boolean {
  const file = openSource(from, fingerprint)
  try {
    return isUnwrittenSegment(from, fingerprint.size, readSegmentHeader(file))
  } finally {
    closeSync(file)
  }
}
