/** A connection that several requests share, and who may still join. Pure, but for the time at which it began. */

/** So many may be under way at once, and so long may Postgres be expected to take for all of them. */
const maximumSharing = 8
const maximumSharingMs = 0.5
/** For so long they keep the connection from others. */
const patienceMs = 5

type Expected = { readonly expectedMs: number | undefined }

export class Sharing {
  /** Called once all that share it have ended. */
  readonly onFree: () => void
  /** Who stands behind one that takes longer goes elsewhere. */
  readonly slowMs: number
  /** Nobody is to join any more. */
  isOver = false
  readonly #since = performance.now()

  constructor(onFree: () => void, slowMs: number) {
    this.onFree = onFree
    this.slowMs = slowMs
  }

  /** Whether what Postgres takes so long for may run behind those under way; where somebody waits for the connection as a whole, only for a while. */
  hasRoomFor(expectedMs: number, queue: readonly Expected[], isWaitedFor: boolean): boolean {
    if (this.isOver || queue.length >= maximumSharing) return false
    if (isWaitedFor && performance.now() - this.#since > patienceMs) return false
    return queue.reduce((sum, one) => sum + (one.expectedMs ?? 0), expectedMs) <= maximumSharingMs
  }
}
