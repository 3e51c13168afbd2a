/**
 * The room for all that streams keep for clients that may come back. It promises that thousands of streams that nobody reads take no more than this together; whoever keeps
 * most makes room, so that a flood of some loses nothing of others.
 */

/** What keeps events. */
type Keeper = {
  /** Gives up the older half. */
  shed(): void
}

export class EventMemory {
  readonly #most: number
  readonly #held = new Map<Keeper, number>()
  #all = 0

  constructor(most: number) {
    this.#most = most
  }

  /** The keeper has so much by now. Whoever has to shed says so again. */
  hold(keeper: Keeper, size: number): void {
    this.#all += size - (this.#held.get(keeper) ?? 0)
    if (size > 0) this.#held.set(keeper, size)
    else this.#held.delete(keeper)
    if (this.#all > this.#most) this.#largest()?.shed()
  }

  #largest(): Keeper | undefined {
    let [largest, most]: [Keeper | undefined, number] = [undefined, 0]
    for (const [keeper, size] of this.#held) if (size > most) [largest, most] = [keeper, size]
    return largest
  }
}
