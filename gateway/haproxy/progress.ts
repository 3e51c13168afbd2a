/** Counts changes to the desired rules. Callers can wait until HAProxy has applied them. */
type Waiter = { for: number; resolve: () => void; reject: (error: Error) => void }

export class Progress {
  readonly #stopping: AbortSignal
  readonly #waiters = new Set<Waiter>()
  #wanted = 0
  /** The last change that HAProxy has applied. */
  #done = -1
  #wake = Promise.withResolvers<void>()

  constructor(stopping: AbortSignal) {
    this.#stopping = stopping
    stopping.addEventListener('abort', () => this.wake())
  }

  get wanted(): number {
    return this.#wanted
  }

  get isDone(): boolean {
    return this.#done >= this.#wanted
  }

  change(): void {
    this.#wanted++
    this.wake()
  }

  wake(): void {
    this.#wake.resolve()
  }

  /** Resolves at the next change, at `wake`, and when the plane stops. */
  nextWake(): Promise<void> {
    this.#wake = Promise.withResolvers()
    return this.#wake.promise
  }

  /** Forgets which changes HAProxy has applied. */
  reset(): void {
    this.#done = -1
  }

  /** Records that HAProxy has applied all changes up to this one. */
  reach(change: number): void {
    this.#done = change
    for (const waiter of this.#waiters) if (waiter.for <= change) waiter.resolve()
  }

  fail(error: Error): void {
    for (const waiter of this.#waiters) waiter.reject(error)
  }

  /**
   * Resolves once HAProxy has applied all changes made so far. @throws Error if the push fails or takes longer than
   * `ms`, or if the plane stops
   */
  untilDone(ms: number): Promise<void> {
    if (this.#stopping.aborted) return Promise.reject(new Error('the gateway has stopped'))
    if (this.isDone) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        clearTimeout(timer)
        this.#waiters.delete(waiter)
      }
      const waiter: Waiter = {
        for: this.#wanted,
        resolve: () => {
          finish()
          resolve()
        },
        reject: error => {
          finish()
          reject(error)
        },
      }
      const timer = setTimeout(() => waiter.reject(new Error(`HAProxy did not apply the rules within ${ms} ms`)), ms)
      this.#waiters.add(waiter)
    })
  }
}
