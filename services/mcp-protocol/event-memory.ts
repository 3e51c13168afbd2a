/**
 * The memory limit for all buffered events of all streams. At the limit, the stream with the largest buffer drops
 * events. So a flood from one client does not drop events of other clients.
 */

/** A buffer of events. */
type EventBuffer = {
  /** Drops the older half of the events. */
  dropHalf(): void
}

export class EventMemory {
  readonly #most: number
  readonly #sizes = new Map<EventBuffer, number>()
  #all = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Records the buffer's current size. May call `dropHalf` of the largest buffer, which calls this function again. */
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
