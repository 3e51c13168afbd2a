/** Work that several callers wait for is done once. A caller whose signal is aborted waits no more; the work itself is stopped when nobody waits for it. */

import { unlessAborted } from '../../process/unless-aborted.ts'

type Flight<Result> = { readonly result: Promise<Result>; readonly stop: AbortController; waiting: number }

export class SharedWork<Result> {
  readonly #flights = new Map<string, Flight<Result>>()

  /**
   * `work` is called if no work of that key is under way.
   * @throws what the work throws, or what the signal is aborted with before
   */
  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    signal.throwIfAborted()
    const flight = this.#flights.get(key) ?? this.#start(key, work)
    flight.waiting += 1
    try {
      return await unlessAborted(flight.result, signal)
    } finally {
      flight.waiting -= 1
      if (flight.waiting === 0) this.#stop(key, flight)
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<Result>): Flight<Result> {
    const stop = new AbortController()
    const flight = { result: work(stop.signal), stop, waiting: 0 }
    this.#flights.set(key, flight)
    return flight
  }

  /** Whoever is next begins anew. */
  #stop(key: string, flight: Flight<Result>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key)
    flight.stop.abort(new Error('nobody waits for it'))
  }
}
