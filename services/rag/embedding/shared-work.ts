/**
 * Runs shared work once for several callers. A caller whose signal aborts stops waiting. The work stops when no caller
 * waits for it.
 */

import { unlessAborted } from '../../process/unless-aborted.ts'

type Flight<Result> = { readonly result: Promise<Result>; readonly stop: AbortController; waiting: number }

export class SharedWork<Result> {
  readonly #flights = new Map<string, Flight<Result>>()

  /**
   * Calls `work` if no work with this key is running.
   * @throws errors of the work, or the signal's reason if it aborts before the work ends
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

  /** Stops the work. The next caller starts it again. */
  #stop(key: string, flight: Flight<Result>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key)
    flight.stop.abort(new Error('no caller waits for it'))
  }
}
