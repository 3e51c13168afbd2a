/**
 * Errands: work that takes longer than a pass, such as a measurement of minutes, a checkpoint, a check of all checksums or an
 * upload. A pass asks for an errand and gets its state at once. The errand runs beside the passes; its subject is enqueued
 * when it ends. Guarantees:
 *
 * - For each subject one errand of a kind runs at a time, and of each kind at most `atOnce`; the others wait.
 * - An errand has no time limit. One that reports no progress for `stallMs` is cancelled and fails.
 * - Its state is only in memory. After a crash the first pass asks again. `find` looks for an errand that still runs or has
 *   ended (a Job, a backend of Postgres, an upload); without one the errand starts again.
 */
import type { Logger } from 'pino'
import { type Clock, systemClock } from '../../cluster/informer/index.ts'

/** An errand stops its work when the signal aborts, and calls `progressed` each time it is further. */
export type ErrandContext = { signal: AbortSignal; progressed: () => void }

/** An errand that another pass began, maybe in another process before a crash. */
type Found<Result> =
  | { state: 'absent' }
  | { state: 'running'; join: () => Promise<Result> }
  | { state: 'done'; result: Result }

export type Errand<Result> = {
  /** `measure`, `checkpoint`: a subject has at most one errand of a kind. */
  kind: string
  /** What it is done for. Another value cancels the errand that runs and discards its result. */
  purpose: string
  find?: (context: ErrandContext) => Promise<Found<Result>>
  run: (context: ErrandContext) => Promise<Result>
}

/** `since`, `progressedAt`, `at`: ms since the epoch. */
type ErrandState<Result> =
  | { state: 'waiting' }
  | { state: 'running'; since: number; progressedAt: number }
  | { state: 'succeeded'; at: number; tookMs: number; result: Result }
  | { state: 'failed'; at: number; tookMs: number; error: unknown }

/** The limits on the errands of one kind. */
export type ErrandLimits = {
  /** Most that run at once, of all subjects. */
  atOnce: number
  /** Most that wait. A caller beyond that gets `waiting` and has to ask again. */
  mostWaiting: number
  /** An errand without progress for this time is cancelled. */
  stallMs: number
}

export class StalledError extends Error {
  override readonly name = 'StalledError'
}

/** The errands of one kind, by the keys of their subjects. */
type Errands<Result> = {
  /** Starts the errand, unless it runs, waits or has ended for this purpose already. */
  ask(key: string, errand: Errand<Result>): ErrandState<Result>
  state(key: string): ErrandState<Result> | undefined
  /** Cancels the errand and discards its state. */
  cancel(key: string): void
  /** Cancels all errands and waits until none runs, at most `graceMs` (5 s); logs those that still run then. */
  stop(graceMs?: number): Promise<void>
}

type Entry<Result> = {
  errand: Errand<Result>
  state: ErrandState<Result>
  abort: AbortController
}

type ErrandOptions = {
  limits: ErrandLimits
  /** The errand of this subject has ended. */
  onEnd: (key: string) => void
  logger: Logger
  clock?: Clock
}

export function createErrands<Result>(options: ErrandOptions): Errands<Result> {
  return new ErrandQueue<Result>(options)
}

class ErrandQueue<Result> implements Errands<Result> {
  readonly #limits: ErrandLimits
  readonly #onEnd: (key: string) => void
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry<Result>>()
  /** Keys in the order in which they were asked for. */
  readonly #waiting = new Set<string>()
  readonly #running = new Map<Promise<void>, { key: string; kind: string }>()
  #isStopped = false

  constructor({ limits, onEnd, logger, clock = systemClock }: ErrandOptions) {
    this.#limits = limits
    this.#onEnd = onEnd
    this.#logger = logger
    this.#clock = clock
  }

  ask(key: string, errand: Errand<Result>): ErrandState<Result> {
    const entry = this.#entries.get(key)
    if (entry?.errand.purpose === errand.purpose) return entry.state
    if (entry !== undefined) this.#remove(key, 'it is done for something else now')
    return this.#add(key, errand)
  }

  state(key: string): ErrandState<Result> | undefined {
    return this.#entries.get(key)?.state
  }

  cancel(key: string): void {
    this.#remove(key, 'it is not wanted any more')
  }

  async stop(graceMs = 5_000): Promise<void> {
    this.#isStopped = true
    for (const key of [...this.#entries.keys()]) this.#remove(key, 'the operator stops')
    const grace = Promise.withResolvers<void>()
    const cancelGrace = this.#clock.after(graceMs, grace.resolve)
    await Promise.race([Promise.all(this.#running.keys()), grace.promise])
    cancelGrace()
    for (const { key, kind } of this.#running.values()) this.#logger.error({ key, kind }, 'an errand does not end')
  }

  #add(key: string, errand: Errand<Result>): ErrandState<Result> {
    if (this.#isStopped || this.#waiting.size >= this.#limits.mostWaiting) return { state: 'waiting' }
    const entry: Entry<Result> = { errand, state: { state: 'waiting' }, abort: new AbortController() }
    this.#entries.set(key, entry)
    this.#waiting.add(key)
    this.#startWaiting()
    return entry.state
  }

  #remove(key: string, why: string): void {
    const entry = this.#entries.get(key)
    this.#entries.delete(key)
    this.#waiting.delete(key)
    entry?.abort.abort(new Error(why))
  }

  #startWaiting(): void {
    for (const key of this.#waiting) {
      if (this.#running.size >= this.#limits.atOnce || this.#isStopped) return
      this.#waiting.delete(key)
      const entry = this.#entries.get(key)
      if (entry === undefined) continue
      const end = this.#run(key, entry).finally(() => {
        this.#running.delete(end)
        this.#startWaiting()
      })
      this.#running.set(end, { key, kind: entry.errand.kind })
    }
  }

  async #run(key: string, entry: Entry<Result>): Promise<void> {
    const { abort, errand } = entry
    const since = this.#clock.now()
    const cancelled = Promise.withResolvers<never>()
    let cancelStall = () => {}
    const progressed = () => {
      if (abort.signal.aborted) return
      cancelStall()
      entry.state = { state: 'running', since, progressedAt: this.#clock.now() }
      cancelStall = this.#clock.after(this.#limits.stallMs, () => {
        abort.abort(new StalledError(`no progress for ${Math.round(this.#limits.stallMs / 1000)} s`))
      })
    }
    progressed()
    abort.signal.addEventListener('abort', () => cancelled.reject(abort.signal.reason), { once: true })
    const work = carryOut(errand, { signal: abort.signal, progressed })
    const end = (outcome: { result: Result } | { error: unknown }) => {
      cancelStall()
      this.#end(key, entry, this.#clock.now() - since, outcome)
    }
    // An errand that ignores its signal has failed too, and counts as running until it ends.
    await Promise.race([work, cancelled.promise]).then(
      result => end({ result }),
      error => end({ error }),
    )
    await work.catch(() => {})
  }

  #end(key: string, entry: Entry<Result>, tookMs: number, outcome: { result: Result } | { error: unknown }): void {
    const at = this.#clock.now()
    const isCurrent = this.#entries.get(key) === entry
    if ('result' in outcome) entry.state = { state: 'succeeded', at, tookMs, result: outcome.result }
    else {
      entry.state = { state: 'failed', at, tookMs, error: outcome.error }
      if (isCurrent) this.#logger.warn({ key, kind: entry.errand.kind, err: outcome.error }, 'an errand failed')
    }
    if (isCurrent) this.#onEnd(key)
  }
}

async function carryOut<Result>(errand: Errand<Result>, context: ErrandContext): Promise<Result> {
  if (errand.find === undefined) return errand.run(context)
  const found = await errand.find(context)
  if (found.state === 'done') return found.result
  return found.state === 'running' ? found.join() : errand.run(context)
}
