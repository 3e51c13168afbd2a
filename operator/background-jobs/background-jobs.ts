/**
 * Background jobs: work that takes longer than a pass, such as a measurement of minutes, a checkpoint, a check of all
 * checksums or an upload. A pass requests a job and gets its state at once. The job runs beside the passes; its subject
 * is enqueued when it ends. Guarantees:
 *
 * - For each subject one job of a kind runs at a time, and of each kind at most `atOnce`; the others wait.
 * - A job has no time limit. One that reports no progress for `stallMs` is cancelled and fails.
 * - Its state is only in memory. After a crash the first pass requests it again. `find` finds work that still runs or
 *   has ended (a Kubernetes Job, a Postgres backend, an upload); if there is none, the job starts again.
 */
import type { Logger } from 'pino'
import { type Clock, systemClock } from '../../cluster/informer/index.ts'

/** A job stops its work when the signal aborts, and calls `progressed` after each step. */
export type JobContext = { signal: AbortSignal; progressed: () => void }

/** Finds work that another pass began, maybe in another process before a crash. */
type Found<Result> =
  | { state: 'absent' }
  | { state: 'running'; join: () => Promise<Result> }
  | { state: 'done'; result: Result }

export type BackgroundJob<Result> = {
  /** `measure`, `checkpoint`: a subject has at most one job of a kind. */
  kind: string
  /** What the job is done for. Another value cancels a running job and discards its result. */
  purpose: string
  find?: (context: JobContext) => Promise<Found<Result>>
  run: (context: JobContext) => Promise<Result>
}

/** `since`, `progressedAt`, `at`: ms since the epoch. */
type JobState<Result> =
  | { state: 'waiting' }
  | { state: 'running'; since: number; progressedAt: number }
  | { state: 'succeeded'; at: number; tookMs: number; result: Result }
  | { state: 'failed'; at: number; tookMs: number; error: unknown }

/** The limits on the jobs of one kind. */
export type JobLimits = {
  /** Most jobs that run at once, of all subjects. */
  atOnce: number
  /** Most jobs that wait. Beyond that the state is `waiting`, and the caller has to request the job again. */
  mostWaiting: number
  /** A job without progress for this time is cancelled. */
  stallMs: number
}

export class StalledError extends Error {
  override readonly name = 'StalledError'
}

/** The jobs of one kind, by the keys of their subjects. */
type BackgroundJobs<Result> = {
  /** Starts the job, unless it runs, waits or has ended for this purpose already. */
  request(key: string, job: BackgroundJob<Result>): JobState<Result>
  state(key: string): JobState<Result> | undefined
  /** Cancels the job and discards its state. */
  cancel(key: string): void
  /** Cancels all jobs and waits until none runs, at most `graceMs` (5 s); logs those that still run then. */
  stop(graceMs?: number): Promise<void>
}

type Entry<Result> = {
  job: BackgroundJob<Result>
  state: JobState<Result>
  abort: AbortController
}

type JobOptions = {
  limits: JobLimits
  /** The job of this subject has ended. */
  onEnd: (key: string) => void
  logger: Logger
  clock?: Clock
}

export function createBackgroundJobs<Result>(options: JobOptions): BackgroundJobs<Result> {
  return new JobQueue<Result>(options)
}

class JobQueue<Result> implements BackgroundJobs<Result> {
  readonly #limits: JobLimits
  readonly #onEnd: (key: string) => void
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry<Result>>()
  /** Keys in the order of their requests. */
  readonly #waiting = new Set<string>()
  readonly #running = new Map<Promise<void>, { key: string; kind: string }>()
  #isStopped = false

  constructor({ limits, onEnd, logger, clock = systemClock }: JobOptions) {
    this.#limits = limits
    this.#onEnd = onEnd
    this.#logger = logger
    this.#clock = clock
  }

  request(key: string, job: BackgroundJob<Result>): JobState<Result> {
    const entry = this.#entries.get(key)
    if (entry?.job.purpose === job.purpose) return entry.state
    if (entry !== undefined) this.#remove(key, 'the job is requested for another purpose')
    return this.#add(key, job)
  }

  state(key: string): JobState<Result> | undefined {
    return this.#entries.get(key)?.state
  }

  cancel(key: string): void {
    this.#remove(key, 'the job is no longer needed')
  }

  async stop(graceMs = 5_000): Promise<void> {
    this.#isStopped = true
    for (const key of [...this.#entries.keys()]) this.#remove(key, 'the operator is stopping')
    const grace = Promise.withResolvers<void>()
    const cancelGrace = this.#clock.after(graceMs, grace.resolve)
    await Promise.race([Promise.all(this.#running.keys()), grace.promise])
    cancelGrace()
    for (const { key, kind } of this.#running.values())
      this.#logger.error({ key, kind }, 'a background job does not end')
  }

  #add(key: string, job: BackgroundJob<Result>): JobState<Result> {
    if (this.#isStopped || this.#waiting.size >= this.#limits.mostWaiting) return { state: 'waiting' }
    const entry: Entry<Result> = { job, state: { state: 'waiting' }, abort: new AbortController() }
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
      this.#running.set(end, { key, kind: entry.job.kind })
    }
  }

  async #run(key: string, entry: Entry<Result>): Promise<void> {
    const { abort, job } = entry
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
    const work = carryOut(job, { signal: abort.signal, progressed })
    const end = (outcome: { result: Result } | { error: unknown }) => {
      cancelStall()
      this.#end(key, entry, this.#clock.now() - since, outcome)
    }
    // A job that ignores its signal has failed too, and counts as running until it ends.
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
      if (isCurrent) this.#logger.warn({ key, kind: entry.job.kind, err: outcome.error }, 'a background job failed')
    }
    if (isCurrent) this.#onEnd(key)
  }
}

async function carryOut<Result>(job: BackgroundJob<Result>, context: JobContext): Promise<Result> {
  if (job.find === undefined) return job.run(context)
  const found = await job.find(context)
  if (found.state === 'done') return found.result
  return found.state === 'running' ? found.join() : job.run(context)
}
