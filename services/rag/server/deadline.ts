/** The time that a request has. It ends all that the request has begun, and the wait for it as well: a part that does not notice keeps no client waiting. */
import { unlessAborted } from '../../process/unless-aborted.ts'
import { RagError } from '../errors.ts'

export class Deadline {
  /** Aborted with RagError REQUEST_TIMEOUT, or with what the client's own signal is aborted with. */
  readonly signal: AbortSignal
  readonly #timeUp = new AbortController()
  readonly #ms: number
  #timer: NodeJS.Timeout | undefined

  constructor(client: AbortSignal, ms: number) {
    this.#ms = ms
    this.signal = AbortSignal.any([client, this.#timeUp.signal])
    this.restart()
  }

  restart(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      const within = this.#ms < 1_000 ? `${this.#ms} ms` : `${this.#ms / 1_000} s`
      this.#timeUp.abort(new RagError('REQUEST_TIMEOUT', `there was no answer within ${within}`))
    }, this.#ms)
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  /** @throws what the work throws, or what the signal is aborted with before */
  race<T>(work: Promise<T>): Promise<T> {
    return unlessAborted(work, this.signal)
  }
}
