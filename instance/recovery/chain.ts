/**
 * Decides which segments may be replayed one after another. Two servers that archive under one identity can each have
 * archived some segments. A segment follows the previous segment only if its writer also wrote that segment. Pure.
 */
import { followsOther, segmentBefore } from '../archive/predecessor.ts'

/**
 * `salt`: the salt of the archived object. Undefined if it does not name a previous segment, as in objects of earlier
 * versions.
 */
type ArchivedSegment = { sha256: Buffer; salt: Buffer | undefined }

const segmentBytes = 16n << 20n
/** More than the number of segments that are fetched ahead. */
const retainedDigests = 16

export class SegmentChain {
  readonly #ofBackup: ReadonlyMap<string, Buffer>
  readonly #accepted = new Map<string, Buffer>()

  /** @param ofBackup SHA-256 of the segments that the base backup contains: the archived segments must be equal */
  constructor(ofBackup: ReadonlyMap<string, Buffer> = new Map()) {
    this.#ofBackup = ofBackup
  }

  /** SHA-256 of the previous segment in the replay; undefined if it is unknown. */
  before(name: string): Buffer | undefined {
    const previous = segmentBefore(name, segmentBytes)
    return previous === undefined ? undefined : (this.#ofBackup.get(previous) ?? this.#accepted.get(previous))
  }

  /**
   * Returns false if another server wrote the segment than the base backup or the previous segment. Call it in order of
   * names.
   */
  accepts(name: string, { sha256, salt }: ArchivedSegment): boolean {
    const [inBackup, before] = [this.#ofBackup.get(name), this.before(name)]
    if (inBackup !== undefined && !inBackup.equals(sha256)) return false
    if (salt !== undefined && before !== undefined && followsOther(salt, before)) return false
    this.add(name, sha256)
    return true
  }

  /** Adds a segment that another check accepted. */
  add(name: string, sha256: Buffer): void {
    this.#accepted.set(name, sha256)
    for (const oldest of this.#accepted.keys()) if (this.#accepted.size > retainedDigests) this.#accepted.delete(oldest)
  }
}
