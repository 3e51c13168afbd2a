/**
 * A check for startup probes. Requests run the check until it succeeds once. Concurrent requests share one
 * run. A run repeats a failed check for 2 s, so that a probe succeeds soon after the database is
 * ready.
 */
import { setTimeout as sleep } from 'node:timers/promises'

/** This time plus the longest check must be shorter than a probe's timeout of ten seconds. */
const repeatedForMs = 2_000
const pauseMs = 250

export class StartupCheck {
  readonly #check: () => Promise<string | undefined>
  #isReady = false
  #running: Promise<string | undefined> | undefined

  /** `check`: resolves to the reason why the server is not ready, or to undefined. */
  constructor(check: () => Promise<string | undefined>) {
    this.#check = check
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** @returns why the server is not ready; undefined if it is ready */
  async run(): Promise<string | undefined> {
    if (this.#isReady) return undefined
    this.#running ??= this.#runOnce().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #runOnce(): Promise<string | undefined> {
    const until = performance.now() + repeatedForMs
    for (;;) {
      const reason = await this.#check()
      this.#isReady = reason === undefined
      if (reason === undefined || performance.now() + pauseMs > until) return reason
      await sleep(pauseMs, undefined, { ref: false })
    }
  }
}
