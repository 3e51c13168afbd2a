/**
 * Caches a description of the database, and refreshes it after some time. During a refresh, callers receive the cached
 * description. Concurrent callers share one refresh.
 */

type Options<Value> = {
  /**
   * `before`: the previous result. The promise must end even if the database does not respond, because no caller's
   * signal stops it.
   */
  readonly read: (before: Value | undefined) => Promise<Value>
  readonly lifetimeMs: number
  readonly now: () => number
  /** Called if the refresh fails. The cached value stays. */
  readonly onFailure: (error: unknown) => void
}

/** The minimum time between a failure and the next attempt. */
const retryMs = 5_000

export class CachedValue<Value> {
  readonly #options: Options<Value>
  #known: { readonly value: Value } | undefined
  #last: Value | undefined
  #until = 0
  #reading: Promise<Value> | undefined

  constructor(options: Options<Value>) {
    this.#options = options
  }

  /** @throws errors of reading if no value is cached */
  get(): Promise<Value> {
    if (this.#known === undefined) return this.read()
    const now = this.#options.now()
    if (now >= this.#until) {
      this.#until = now + retryMs
      this.read().catch(this.#options.onFailure)
    }
    return Promise.resolve(this.#known.value)
  }

  /** Refreshes the value now. */
  read(): Promise<Value> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** Makes the next `get` wait for a refresh. */
  forget(): void {
    this.#known = undefined
  }

  async #read(): Promise<Value> {
    const { read, lifetimeMs, now } = this.#options
    const value = await read(this.#last)
    this.#last = value
    this.#known = { value }
    this.#until = now() + lifetimeMs
    return value
  }
}
