/**
 * The memory limit for the buffered events of all streams together. When it is exceeded, the stream with the largest
 * buffer drops events, so that a flood from one client does not drop the events of other clients.
 */

/** A buffer of events. */
type EventBuffer = {
  /** Drops the older half of its events. */
  dropHalf(): void
}

export class EventMemory {
  readonly #most: number
  readonly #sizes = new Map<EventBuffer, number>()
  #all = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Records the buffer's current size. A buffer that has to drop events calls this again. */
  setSize(buffer: EventBuffer, size: number): void {
    this.#all += size - (this.#sizes.get(buffer) ?? 0)
    if (size > 0) this.#sizes.set(buffer, size)
    else this.#sizes.delete(buffer)
    if (this.#all > this.#most) this.#largest()?.dropHalf()
  }

  #largest(): EventBuffer | undefined {
    let [largest, most]: [EventBuffer | undefined, number] = [undefined, 0]
    for (const [buffer, size] of this.#sizes) if (size > most) [largest, most] = [buffer, size]
    return largest
  }
}
