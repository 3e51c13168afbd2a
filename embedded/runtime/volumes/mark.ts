/**
 * Decides whether an entry of a tree may have changed since it was copied: its size, inode, mtime or ctime differ, or it
 * was changed so shortly before the copy that a later change could have the same time. (The kernel's clock for files ticks
 * every few milliseconds; some file systems store whole seconds.) All times come from the file system, never from this
 * machine's clock.
 */
import type { BigIntStats } from 'node:fs'

type EntryKind = 'file' | 'directory' | 'link'
/** The attributes of an entry just before it was copied. */
export type Mark = { kind: EntryKind; size: bigint; inode: bigint; modified: bigint; changed: bigint }

export const markOf = (kind: EntryKind, stats: BigIntStats): Mark => ({
  kind,
  size: stats.size,
  inode: stats.ino,
  modified: stats.mtimeNs,
  changed: stats.ctimeNs,
})

export const kindOf = (stats: BigIntStats): EntryKind | undefined => {
  if (stats.isFile()) return 'file'
  if (stats.isDirectory()) return 'directory'
  return stats.isSymbolicLink() ? 'link' : undefined // sockets, pipes and devices are not part of an image
}

/** An entry's mark at its copy, and the time before which changes show in a later mark. */
export type Copied = { mark: Mark; certainBefore: bigint }

/** Compares an entry's mark with that of its copy. Pure. */
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

/** Whether a change after this mark shows in a later mark. */
export const isCertain = (mark: Mark, certainBefore: bigint): boolean =>
  mark.modified < certainBefore && mark.changed < certainBefore
