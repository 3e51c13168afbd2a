/**
 * The bytes of a body as they arrive, in pieces. Even if the chunks are small, the
 * pieces use only slightly more memory than the length of the body. Adding bytes never copies earlier bytes.
 */

/** Smaller chunks are joined, because each Buffer needs several hundred bytes of additional memory. */
const ownPieceBytes = 16_384
const slabBytes = 65_536

export class Pieces {
  readonly #pieces: Buffer[] = []
  #slab: Buffer | undefined
  #filled = 0
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Takes ownership of the bytes: the caller must not change them. */
  add(bytes: Buffer): void {
    if (bytes.length === 0) return
    const isFirst = this.#length === 0
    this.#length += bytes.length
    if (isFirst || bytes.length >= ownPieceBytes) {
      this.#seal()
      this.#pieces.push(bytes)
    } else this.#copy(bytes)
  }

  /** Copies the bytes, so that the caller can reuse its buffer. */
  addCopy(bytes: Buffer): void {
    this.#length += bytes.length
    this.#copy(bytes)
  }

  /** One Buffer or several, in order. */
  bytes(): Buffer | readonly Buffer[] {
    this.#seal()
    const [first = Buffer.alloc(0)] = this.#pieces
    return this.#pieces.length > 1 ? this.#pieces : first
  }

  #copy(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      // While the body has at most 1 KiB, a slab has 1 KiB, because most bodies are small.
      this.#slab ??= Buffer.allocUnsafe(this.#length <= 1_024 ? 1_024 : slabBytes)
      const copied = bytes.copy(this.#slab, this.#filled, at)
      at += copied
      this.#filled += copied
      if (this.#filled === this.#slab.length) this.#seal()
    }
  }

  #seal(): void {
    if (this.#slab !== undefined && this.#filled > 0) this.#pieces.push(this.#slab.subarray(0, this.#filled))
    this.#slab = undefined
    this.#filled = 0
  }
}
