/**
 * The bytes of a body while they come: kept in pieces, each of them once, however the client has cut them. It promises that what is held is not much more than the
 * bytes themselves, and that adding to it never copies what is there already.
 */
// @ts-nocheck


/** What comes in pieces smaller than this is put together: each by itself would take some hundred bytes more. */
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

  /** The bytes become its own: whoever gives them must not change them. */
  add(bytes: Buffer): void {
    if (bytes.length === 0) return
    const isFirst = this.#length === 0
    this.#length += bytes.length
    if (isFirst || bytes.length >= ownPieceBytes) {
      this.#seal()
      this.#pieces.push(bytes)
    } else this.#copy(bytes)
  }

  /** Of bytes that are not its own; the first of a body are few, as most bodies are. */
  addCopy(bytes: Buffer): void {
    this.#length += bytes.length
    this.#copy(bytes)
  }

  /** In one piece or in several, one after the other. */
  bytes(): Buffer | readonly Buffer[] {
    this.#seal()
    const [first = Buffer.alloc(0)] = this.#pieces
    return this.#pieces.length > 1 ? this.#pieces : first
  }

  #copy(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
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
