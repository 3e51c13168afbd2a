/**
 * Decides whether an entry of a tree may have changed since it was copied. It may have changed if its size, inode,
 * mtime or ctime differ. It may also have changed if its last change was so shortly before the copy that a later change
 * could have the same time. (The kernel's clock for files ticks every few milliseconds; some file systems store whole
 * seconds.) All times come from the file system, never from this machine's clock.
 */
import type { BigIntStats } from 'node:fs'

type EntryKind = 'file' | 'directory' | 'link'
/** The attributes of an entry just before it was copied. */
export type Fingerprint = { kind: EntryKind; size: bigint; inode: bigint; modified: bigint; changed: bigint }

export const fingerprintOf = (kind: EntryKind, stats: BigIntStats): Fingerprint => ({
  kind,
  size: stats.size,
  inode: stats.ino,
  modified: stats.mtimeNs,
  changed: stats.ctimeNs,
})

export const kindOf = (stats: BigIntStats): EntryKind | undefined => {
  if (stats.isFile()) return 'file'
  if (stats.isDirectory()) return 'directory'
  return stats.isSymbolicLink() ? 'link' : undefined // an image does not contain sockets, pipes and devices
}

/** An entry's fingerprint when it was copied, and the time before which changes are visible in a later fingerprint. */
export type Copied = { fingerprint: Fingerprint; certainBefore: bigint }

/** Compares an entry's fingerprint with that of its copy. Pure. */
export function compareFingerprints(
  copied: Copied | undefined,
  fingerprint: Fingerprint,
): 'same' | 'uncertain' | 'changed' {
  if (copied === undefined) return 'changed'
  const { fingerprint: old, certainBefore } = copied
  const alike =
    old.kind === fingerprint.kind &&
    old.size === fingerprint.size &&
    old.inode === fingerprint.inode &&
    old.modified === fingerprint.modified &&
    old.changed === fingerprint.changed
  if (!alike) return 'changed'
  return isCertain(fingerprint, certainBefore) ? 'same' : 'uncertain'
}

/** Whether a change after this fingerprint is visible in a later one. */
export const isCertain = (fingerprint: Fingerprint, certainBefore: bigint): boolean =>
  fingerprint.modified < certainBefore && fingerprint.changed < certainBefore
