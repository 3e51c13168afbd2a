/**
 * How many bytes of bodies are held in memory at once, read and not yet answered, or answered and not yet fetched. It promises that whoever sends or asks for much
 * on many connections exhausts a number, not the memory: what is beyond it is refused, while small bodies, which are not counted, go on being served, and one that
 * is alone is let through, however large. Whoever takes long to send gives way: bodies that never end keep nobody out.
 */

/** A body that has been coming for longer gives way to others. */
const patienceMs = 10_000

/** A body of so few bytes is always taken. */
export const smallBodyBytes = 65_536

export class Budget {
  readonly #limit: number
  readonly #now: () => number
  #held = 0
  /** The one that began first is first. */
  readonly #coming = new Set<Coming>()

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
  }

  get held(): number {
    return this.#held
  }

  /** For all bodies of one request. */
  reserve(): Reservation {
    let taken = 0
    let isReleased = false
    const reservation: Reservation = {
      grow: bytes => {
        const more = bytes <= smallBodyBytes ? 0 : Math.max(0, bytes - taken)
        const fits = () => more === 0 || this.#held === taken || this.#held + more <= this.#limit
        while (!isReleased && !fits() && this.#takeBack(reservation)) {}
        if (isReleased || !fits()) return false
        taken += more
        this.#held += more
        return true
      },
      release: () => {
        isReleased = true
        this.#held -= taken
        taken = 0
      },
      coming: giveUp => {
        const one = { reservation, began: this.#now(), isLarge: () => taken > 0, giveUp }
        this.#coming.add(one)
        return () => void this.#coming.delete(one)
      },
    }
    return reservation
  }

  /** @returns whether there was one that had to give way */
  #takeBack(asking: Reservation): boolean {
    const latest = this.#now() - patienceMs
    for (const one of this.#coming) {
      if (one.began > latest) return false
      if (one.reservation === asking || !one.isLarge()) continue
      this.#coming.delete(one)
      one.reservation.release()
      one.giveUp()
      return true
    }
    return false
  }
}

export type Reservation = {
  /** To so many bytes in all; false where there is no room for more. */
  grow(bytes: number): boolean
  release(): void
  /** Its body is being read, and is given up where others need the room. @returns what is called at the body's end */
  coming(giveUp: () => void): () => void
}

/** A body that is still being read. */
type Coming = {
  readonly reservation: Reservation
  readonly began: number
  readonly isLarge: () => boolean
  readonly giveUp: () => void
}
