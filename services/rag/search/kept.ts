/** A description of the database that is read again after a while. What is known is returned while it is read again, once for all who wait. */

type Options<Value> = {
  /** `before`: what was read last. It must end, also where the database is silent: no signal of a caller stops it. */
  readonly read: (before: Value | undefined) => Promise<Value>
  readonly keptMs: number
  readonly now: () => number
  /** Called where it cannot be read again; what is known stays. */
  readonly onFailure: (error: unknown) => void
}

/** After a failure it is not read again before. */
const retryMs = 5_000

export class Kept<Value> {
  readonly #options: Options<Value>
  #known: { readonly value: Value } | undefined
  #last: Value | undefined
  #until = 0
  #reading: Promise<Value> | undefined

  constructor(options: Options<Value>) {
    this.#options = options
  }

  /** @throws what reading throws, if nothing is known */
  get(): Promise<Value> {
    if (this.#known === undefined) return this.read()
    const now = this.#options.now()
    if (now >= this.#until) {
      this.#until = now + retryMs
      this.read().catch(this.#options.onFailure)
    }
    return Promise.resolve(this.#known.value)
  }

  /** Reads it now. */
  read(): Promise<Value> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  /** The next `get` waits until it has been read. */
  forget(): void {
    this.#known = undefined
  }

  async #read(): Promise<Value> {
    const { read, keptMs, now } = this.#options
    const value = await read(this.#last)
    this.#last = value
    this.#known = { value }
    this.#until = now() + keptMs
    return value
  }
}
