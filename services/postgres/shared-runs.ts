/** Decides which runs may join a shared connection. Pure, except for its start time. */

/** The maximum number of runs in progress, and their maximum total expected duration. */
const maximumRuns = 8
const maximumTotalMs = 0.5
/** How long shared runs may delay a request for exclusive use. */
const maximumDelayMs = 5

type Expected = { readonly expectedMs: number | undefined }

export class SharedRuns {
  /** Called once all runs that share the connection have ended. */
  readonly onFree: () => void
  /** Runs behind a run that takes longer than this are evicted. */
  readonly slowMs: number
  /** No further run may join. */
  isOver = false
  readonly #since = performance.now()

  constructor(onFree: () => void, slowMs: number) {
    this.onFree = onFree
    this.slowMs = slowMs
  }

  /**
   * Whether a run of this expected duration may join the runs in progress. If a request waits for exclusive use, runs
   * may join only for a while.
   */
  accepts(expectedMs: number, queue: readonly Expected[], isWaitedFor: boolean): boolean {
    if (this.isOver || queue.length >= maximumRuns) return false
    if (isWaitedFor && performance.now() - this.#since > maximumDelayMs) return false
    return queue.reduce((sum, one) => sum + (one.expectedMs ?? 0), expectedMs) <= maximumTotalMs
  }
}
