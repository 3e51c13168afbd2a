/**
 * Which segments may be replayed one after another. Two servers that archive under one identity can each have archived
 * some: a segment follows the one before it only if its writer had that one, too. Pure.
 */
import { followsOther, segmentBefore } from '../archive/predecessor.ts'

/** `salt`: of the archived object; undefined if it names nothing before it, as in objects of earlier versions. */
type ArchivedSegment = { sha256: Buffer; salt: Buffer | undefined }

const segmentBytes = 16n << 20n
/** More than are fetched ahead. */
const retainedDigests = 16

export class SegmentChain {
  readonly #ofBackup: ReadonlyMap<string, Buffer>
  readonly #accepted = new Map<string, Buffer>()

  /** @param ofBackup SHA-256 of the segments that the base backup contains: the archive's must be the same */
  constructor(ofBackup: ReadonlyMap<string, Buffer> = new Map()) {
    this.#ofBackup = ofBackup
  }

  /** SHA-256 of the segment before this one, as it is replayed; undefined if that is unknown. */
  before(name: string): Buffer | undefined {
    const previous = segmentBefore(name, segmentBytes)
    return previous === undefined ? undefined : (this.#ofBackup.get(previous) ?? this.#accepted.get(previous))
  }

  /** False if the segment is of another server than the base backup or the segment before. Called in order of names. */
  accepts(name: string, { sha256, salt }: ArchivedSegment): boolean {
    const [inBackup, before] = [this.#ofBackup.get(name), this.before(name)]
    if (inBackup !== undefined && !inBackup.equals(sha256)) return false
    if (salt !== undefined && before !== undefined && followsOther(salt, before)) return false
    this.add(name, sha256)
    return true
  }

  /** Adds a segment that was accepted otherwise. */
  add(name: string, sha256: Buffer): void {
    this.#accepted.set(name, sha256)
    for (const oldest of this.#accepted.keys()) if (this.#accepted.size > retainedDigests) this.#accepted.delete(oldest)
  }
}
