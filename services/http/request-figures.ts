/**
 * Metrics of the requests that a server answers. No label has a value from a request, so the number of time series is
 * fixed.
 */
import { durationBounds, durationName } from '../../server/samples.ts'

/** One request that the metrics count. */
export type Counted = {
  /**
   * Call this when the head of an event stream is sent. The request's duration ends here, because the
   * client decides how long the stream stays open.
   */
  begun(): void
  /** Call this when the response is sent, or the client has disconnected. Only the first call counts. */
  ended(status: number): void
}

export class RequestFigures {
  readonly #uncounted: ReadonlySet<string>
  readonly #now: () => number
  /** The number of requests, by the first digit of the status code. */
  readonly #classes = [0, 0, 0, 0, 0, 0]
  readonly #durations: number[] = Array.from({ length: durationBounds.length + 1 }, () => 0)
  #inProgress = 0

  /** `uncounted`: the paths of probes, of metrics, and of forwarded requests. */
  constructor(uncounted: readonly string[] = [], now: () => number = () => performance.now()) {
    this.#uncounted = new Set(uncounted)
    this.#now = now
  }

  /** Undefined: the request is not counted. */
  begin(path: string): Counted | undefined {
    if (this.#uncounted.has(path)) return undefined
    const startedAt = this.#now()
    this.#inProgress += 1
    let isTimed = false
    let isOver = false
    const time = () => {
      if (isTimed) return
      isTimed = true
      const seconds = (this.#now() - startedAt) / 1000
      const found = durationBounds.findIndex(bound => seconds <= bound)
      const index = found < 0 ? durationBounds.length : found
      this.#durations[index] = (this.#durations[index] ?? 0) + 1
    }
    return {
      begun: time,
      ended: status => {
        if (isOver) return
        isOver = true
        time()
        this.#inProgress -= 1
        const first = Math.min(5, Math.max(2, Math.floor(status / 100)))
        this.#classes[first] = (this.#classes[first] ?? 0) + 1
      },
    }
  }

  read(): Record<string, number> {
    const [, , succeeded = 0, redirected = 0, refused = 0, failed = 0] = this.#classes
    return {
      requests_2xx: succeeded,
      requests_3xx: redirected,
      requests_4xx: refused,
      requests_5xx: failed,
      in_progress: this.#inProgress,
      ...Object.fromEntries(this.#durations.map((count, index) => [durationName(index), count])),
    }
  }
}
