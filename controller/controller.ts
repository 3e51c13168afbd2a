/**
 * Runs one reconciler. Workers get keys from its queue. A key that fails is retried with exponential delays, and every
 * key is reconciled again at an interval. A pass that throws affects only its own key. At its deadline, a pass is
 * aborted by its signal, logged, and reported by `overdue`.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from 'pino'
import { isClusterError } from '../cluster/index.ts'
import { type Clock, systemClock } from '../cluster/informer/index.ts'
import type { BackoffOptions } from './backoff.ts'
import type { Metrics, ReconcileOutcome } from './metrics.ts'
import { type AddOptions, lowPriority, WorkQueue } from './queue.ts'

/** The result of a successful pass. */
export type ReconcileResult = { requeueAfterMs?: number | undefined } | undefined

/** Runs one pass for a key. The signal aborts at the pass's deadline, and when the controller stops without waiting. */
export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult>

export type ControllerOptions = {
  name: string
  workers: number
  reconcile: Reconcile
  /** Returns all keys, for the resync. If absent, there is no resync. */
  keys?: (() => Iterable<string>) | undefined
  /** The signal of leadership. When it aborts, running passes are aborted, and no pass begins. */
  signal?: AbortSignal | undefined
  /** How long a pass may take before its signal aborts. */
  deadlineMs?: number | undefined
  resyncMs?: number | undefined
  limits?: BackoffOptions | undefined
  logger: Logger
  metrics?: Metrics | undefined
  clock?: Clock | undefined
  random?: (() => number) | undefined
}

export type Controller = {
  readonly name: string
  enqueue(key: string, options?: AddOptions): void
  enqueueAfter(key: string, delayMs: number, options?: AddOptions): void
  /** Returns the passes that still run after their deadline. */
  overdue(): { key: string; ageMs: number }[]
  /**
   * Starts no more passes, and waits for the running ones. Aborts their signals after `graceMs` (20 s). After another 5
   * s, logs those that still run, and returns.
   */
  stop(graceMs?: number): Promise<void>
}

const defaults = { deadlineMs: 120_000, resyncMs: 600_000, graceMs: 20_000, abortMs: 5_000 }

/**
 * Passes that wait for nothing outside the process, for example over a store in memory, do not return to the event
 * loop. While their events enqueue each other's keys, no timer and no socket of the process would run.
 */
const longestTurnMs = 50

/** Whether only a bug raises this exception. It is counted separately, because a retry does not help. */
const isMistake = (error: unknown): boolean =>
  !(error instanceof Error) ||
  error instanceof TypeError ||
  error instanceof ReferenceError ||
  error instanceof RangeError ||
  error instanceof SyntaxError

export function startController(options: ControllerOptions): Controller {
  const running = new RunningController(options)
  return {
    name: options.name,
    enqueue: (key, add) => running.queue.add(key, add),
    enqueueAfter: (key, delayMs, add) => running.queue.addAfter(key, delayMs, add),
    overdue: () => running.overdue(),
    stop: graceMs => running.stop(graceMs),
  }
}

class RunningController {
  readonly queue: WorkQueue
  readonly #options: ControllerOptions
  readonly #logger: Logger
  readonly #clock: Clock
  readonly #random: () => number
  readonly #deadlineMs: number
  readonly #resyncMs: number
  readonly #unwatch: (() => void) | undefined
  /** The signals of running passes. */
  readonly #passes = new Map<string, AbortController>()
  readonly #workers: Promise<void>[]
  #cancelResync: (() => void) | undefined

  constructor(options: ControllerOptions) {
    const { name, metrics, signal } = options
    this.#options = options
    this.#logger = options.logger.child({ controller: name })
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? Math.random
    this.#deadlineMs = options.deadlineMs ?? defaults.deadlineMs
    this.#resyncMs = options.resyncMs ?? defaults.resyncMs
    const queueMetrics = metrics?.queue(name)
    this.queue = new WorkQueue({
      clock: this.#clock,
      ...(options.limits && { limits: options.limits }),
      ...(queueMetrics && { metrics: queueMetrics }),
    })
    this.#unwatch = metrics?.watchQueue(name, () => this.queue.state)
    signal?.addEventListener('abort', this.#abortPasses, { once: true })
    this.#workers = Array.from({ length: options.workers }, () => this.#work())
    this.#scheduleResync()
    if (signal?.aborted) this.#abortPasses()
  }

  overdue(): { key: string; ageMs: number }[] {
    return this.queue.state.running.filter(({ ageMs }) => ageMs > this.#deadlineMs)
  }

  async stop(graceMs = defaults.graceMs): Promise<void> {
    this.#cancelResync?.()
    void this.queue.shutDown()
    await this.#waitForWorkers(graceMs)
    this.#options.signal?.removeEventListener('abort', this.#abortPasses)
    this.#unwatch?.()
  }

  async #work(): Promise<void> {
    const { queue } = this
    let turnStartedAt = performance.now()
    for (let next = await queue.next(); next; next = await queue.next()) {
      await this.#runPass(next.key)
      queue.done(next.key)
      if (performance.now() - turnStartedAt < longestTurnMs) continue
      await nextTurn()
      turnStartedAt = performance.now()
    }
  }

  async #runPass(key: string): Promise<void> {
    const { name, reconcile, signal, metrics } = this.#options
    const pass = new AbortController()
    if (signal?.aborted) pass.abort(signal.reason)
    this.#passes.set(key, pass)
    const startedAt = this.#clock.now()
    const release = this.#supervise(key, pass, startedAt)
    let outcome: ReconcileOutcome
    try {
      outcome = this.#conclude(key, await reconcile(key, pass.signal))
    } catch (error) {
      outcome = this.#fail(key, error, this.#clock.now() - startedAt >= this.#deadlineMs)
    } finally {
      release()
      this.#passes.delete(key)
    }
    metrics?.reconciled(name, outcome, this.#clock.now() - startedAt)
  }

  /**
   * Aborts the pass at its deadline. Then logs it at increasing intervals while it runs. Returns a function that ends
   * this.
   */
  #supervise(key: string, pass: AbortController, startedAt: number): () => void {
    const clock = this.#clock
    let waitMs = this.#deadlineMs
    const remind = () => {
      if (!pass.signal.aborted) pass.abort(new Error(`the pass took longer than ${this.#deadlineMs} ms`))
      this.#logger.error({ key, ageMs: Math.round(clock.now() - startedAt) }, 'a pass is past its deadline')
      waitMs *= 2
      cancel = clock.after(waitMs, remind)
    }
    let cancel = clock.after(waitMs, remind)
    return () => cancel()
  }

  #conclude(key: string, result: ReconcileResult): ReconcileOutcome {
    this.queue.forget(key)
    if (result?.requeueAfterMs === undefined) return 'success'
    this.queue.addAfter(key, result.requeueAfterMs)
    return 'requeue_after'
  }

  #fail(key: string, error: unknown, timedOut: boolean): ReconcileOutcome {
    this.queue.addRateLimited(key)
    const logger = this.#logger
    const details = { key, retries: this.queue.retries(key), err: error }
    if (isClusterError(error, 'Conflict')) {
      logger.debug(details, 'decided on an outdated state, retrying')
      return 'conflict'
    }
    if (isMistake(error)) {
      logger.error(details, 'the reconciler threw')
      return 'panic'
    }
    if (this.#options.signal?.aborted) logger.debug(details, 'the pass was aborted')
    else logger.warn(details, timedOut ? 'the pass did not end by its deadline' : 'the pass failed, retrying')
    return timedOut ? 'timeout' : 'error'
  }

  #scheduleResync(): void {
    if (!this.#options.keys) return
    const delayMs = this.#resyncMs * (0.9 + this.#random() * 0.2)
    this.#cancelResync = this.#clock.after(delayMs, () => {
      this.#resync()
      this.#scheduleResync()
    })
  }

  /** Enqueues all keys, spread over a tenth of the interval to avoid a load peak. */
  #resync(): void {
    try {
      for (const key of this.#options.keys?.() ?? []) {
        this.queue.addAfter(key, (this.#random() * this.#resyncMs) / 10, { priority: lowPriority })
      }
    } catch (error) {
      this.#logger.error({ err: error }, 'the resync failed')
    }
  }

  readonly #abortPasses = (): void => {
    void this.queue.shutDown()
    this.#cancelResync?.()
    const reason = this.#options.signal?.reason ?? new Error('the controller is stopped')
    for (const pass of this.#passes.values()) pass.abort(reason)
  }

  async #waitForWorkers(graceMs: number): Promise<void> {
    const clock = this.#clock
    const ended = Promise.all(this.#workers)
    const timeUp = Promise.withResolvers<void>()
    let cancel = clock.after(graceMs, () => {
      this.#abortPasses()
      cancel = clock.after(defaults.abortMs, () => {
        this.#logger.error({ keys: [...this.#passes.keys()] }, 'stopped while passes are still running')
        timeUp.resolve()
      })
    })
    await Promise.race([ended, timeUp.promise])
    cancel()
  }
}
