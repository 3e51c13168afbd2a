/** The time that a request has. It ends all that the request has begun, and the wait for it as well: a part that does not notice keeps no client waiting. */
import { unlessAborted } from '../../process/unless-aborted.ts'
import { RagError } from '../errors.ts'

export const shownMs = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

export class Deadline {
  /** Aborted with the error, or with what the client's own signal is aborted with. */
  readonly signal: AbortSignal
  readonly #timeUp = new AbortController()
  readonly #ms: number
  readonly #error: RagError
  #timer: NodeJS.Timeout | undefined
  #lastTimer: NodeJS.Timeout | undefined

  /** `elapsedMs`: of the first time; a restart gives it all. */
  constructor(client: AbortSignal, ms: number, error: RagError, elapsedMs = 0) {
    this.#ms = ms
    this.#error = error
    this.signal = AbortSignal.any([client, this.#timeUp.signal])
    this.#start(Math.max(0, ms - elapsedMs))
  }

  restart(): void {
    this.#start(this.#ms)
  }

  /** Until `restart`: what is waited for has a limit of its own. */
  pause(): void {
    clearTimeout(this.#timer)
  }

  /** A limit that neither a pause nor a restart moves. */
  endAfter(ms: number, error: RagError): void {
    this.#lastTimer = setTimeout(() => this.#timeUp.abort(error), ms)
  }

  end(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#lastTimer)
  }

  /** @throws what the work throws, or what the signal is aborted with before */
  race<T>(work: Promise<T>): Promise<T> {
    return unlessAborted(work, this.signal)
  }

  #start(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#timeUp.abort(this.#error), ms)
  }
}

export const answerDeadline = (client: AbortSignal, ms: number, elapsedMs: number): Deadline =>
  new Deadline(client, ms, new RagError('REQUEST_TIMEOUT', `there was no answer within ${shownMs(ms)}`), elapsedMs)
