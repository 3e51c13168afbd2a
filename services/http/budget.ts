/**
 * Limits the bytes of request and response bodies in memory. A request's bodies count until the client has read the
 * response. Above the limit, the budget refuses large bodies. It always accepts small bodies, and does not count them.
 * It accepts one body above the limit if no other large body is in memory. It cancels slow uploads if another
 * request needs the memory.
 */

/** An upload that takes longer than this may be cancelled for another request. */
const maximumWaitMs = 10_000

/** A body with at most this many bytes is always accepted. */
export const smallBodyBytes = 65_536

export class Budget {
  readonly #limit: number
  readonly #now: () => number
  #reserved = 0
  /** The uploads, oldest first. */
  readonly #uploads = new Set<Upload>()

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
  }

  get reserved(): number {
    return this.#reserved
  }

  /** One reservation for all bodies of a request. */
  reserve(): Reservation {
    let taken = 0
    let isReleased = false
    const reservation: Reservation = {
      grow: bytes => {
        const more = bytes <= smallBodyBytes ? 0 : Math.max(0, bytes - taken)
        const fits = () => more === 0 || this.#reserved === taken || this.#reserved + more <= this.#limit
        while (!isReleased && !fits() && this.#takeBack(reservation)) {}
        if (isReleased || !fits()) return false
        taken += more
        this.#reserved += more
        return true
      },
      release: () => {
        isReleased = true
        this.#reserved -= taken
        taken = 0
      },
      addUpload: cancel => {
        const one = { reservation, began: this.#now(), isLarge: () => taken > 0, cancel }
        this.#uploads.add(one)
        return () => void this.#uploads.delete(one)
      },
    }
    return reservation
  }

  /** @returns whether an upload was cancelled */
  #takeBack(requester: Reservation): boolean {
    const latest = this.#now() - maximumWaitMs
    for (const one of this.#uploads) {
      if (one.began > latest) return false
      if (one.reservation === requester || !one.isLarge()) continue
      this.#uploads.delete(one)
      one.reservation.release()
      one.cancel()
      return true
    }
    return false
  }
}

export type Reservation = {
  /** Grows the reservation to this many bytes in total. Returns false if the budget is exhausted. */
  grow(bytes: number): boolean
  release(): void
  /**
   * Registers an upload that may be cancelled if another request needs the memory.
   * @returns a function that the caller calls when the upload ends
   */
  addUpload(cancel: () => void): () => void
}

/** A body that the server is still reading. */
type Upload = {
  readonly reservation: Reservation
  readonly began: number
  readonly isLarge: () => boolean
  readonly cancel: () => void
}
