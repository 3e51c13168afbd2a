/**
 * How many bytes of bodies are held in memory at once, read and not yet answered, or answered and not yet fetched. It promises that whoever sends or asks for much
 * on many connections exhausts a number, not the memory: what is beyond it is refused, while small bodies, which are not counted, go on being served, and one that
 * is alone is let through, however large.
 */
// @ts-nocheck


/** A body of so few bytes is always taken. */
export const smallBodyBytes = 65_536

export class Budget {
  readonly #limit: number
  #held = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  get held(): number {
    return this.#held
  }

  /** For all bodies of one request. */
  reserve(): Reservation {
    let taken = 0
    let isReleased = false
    return {
      grow: bytes => {
        const more = bytes <= smallBodyBytes ? 0 : Math.max(0, bytes - taken)
        const others = this.#held - taken
        if (isReleased || (more > 0 && others > 0 && this.#held + more > this.#limit)) return false
        taken += more
        this.#held += more
        return true
      },
      release: () => {
        isReleased = true
        this.#held -= taken
        taken = 0
      },
    }
  }
}

export type Reservation = {
  /** To so many bytes in all; false where there is no room for more. */
  grow(bytes: number): boolean
  release(): void
}
