/**
 * The time limit of a request. It ends all work of the request. It also ends the wait for this work, so that work which
 * ignores the signal does not delay the client.
 */
import { unlessAborted } from '../../process/unless-aborted.ts'
import { RagError } from '../errors.ts'

export const shownMs = (ms: number): string => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

export class Deadline {
  /** Aborts with the error, or with the reason of the client's own signal. */
  readonly signal: AbortSignal
  readonly #timeUp = new AbortController()
  readonly #ms: number
  readonly #error: RagError
  #timer: NodeJS.Timeout | undefined
  #lastTimer: NodeJS.Timeout | undefined

  /** `elapsedMs`: the part of the first period that has already passed. A restart grants the full time again. */
  constructor(client: AbortSignal, ms: number, error: RagError, elapsedMs = 0) {
    this.#ms = ms
    this.#error = error
    this.signal = AbortSignal.any([client, this.#timeUp.signal])
    this.#start(Math.max(0, ms - elapsedMs))
  }

  restart(): void {
    this.#start(this.#ms)
  }

  /** Stops the timer until `restart`, while the request waits for something with its own limit. */
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

  /** @throws errors of the work, or the signal's reason if it aborts before the work ends */
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
