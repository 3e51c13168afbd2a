/**
 * The time limit of a request. It ends all work of the request, and the wait for it as well: work that ignores the
 * signal does not delay the client.
 */
import { unlessAborted } from '../../process/unless-aborted.ts'
import { RagError } from '../errors.ts'

export const shownMs = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

export class Deadline {
  /** Aborted with the error, or with the reason of the client's own signal. */
  readonly signal: AbortSignal
  readonly #timeUp = new AbortController()
  readonly #ms: number
  readonly #error: RagError
  #timer: NodeJS.Timeout | undefined
  #lastTimer: NodeJS.Timeout | undefined

  /** `elapsedMs`: of the first period; a restart grants the full time again. */
  constructor(client: AbortSignal, ms: number, error: RagError, elapsedMs = 0) {
    this.#ms = ms
    this.#error = error
    this.signal = AbortSignal.any([client, this.#timeUp.signal])
    this.#start(Math.max(0, ms - elapsedMs))
  }

  restart(): void {
    this.#start(this.#ms)
  }

  /** Until `restart`: used while waiting for something with its own limit. */
  pause(): void {
    clearTimeout(this.#timer)
  }

  /** A limit that neither a pause nor a restart extends. */
  endAfter(ms: number, error: RagError): void {
    this.#lastTimer = setTimeout(() => this.#timeUp.abort(error), ms)
  }

  end(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#lastTimer)
  }

  /** @throws errors of the work, or the signal's reason if it is aborted before */
  race<T>(work: Promise<T>): Promise<T> {
    return unlessAborted(work, this.signal)
  }

  #start(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#timeUp.abort(this.#error), ms)
  }
}

export const answerDeadline = (client: AbortSignal, ms: number, elapsedMs: number): Deadline =>
  new Deadline(client, ms, new RagError('REQUEST_TIMEOUT', `no answer within ${shownMs(ms)}`), elapsedMs)
