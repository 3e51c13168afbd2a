/**
 * Runs one reconciler: workers take keys from its queue, a key that fails is retried with growing delays, one that
 * succeeds is forgotten, and every key is looked at again from time to time. A pass that throws concerns its own key only;
 * one that does not end is told to by its signal, named in the log, and shows in `overdue`.
 */
// @ts-nocheck

import type { Logger } from 'pino'
import { isClusterError } from '../cluster/index.ts'
import { type Clock, systemClock } from '../cluster/informer/index.ts'
import type { BackoffOptions } from './backoff.ts'
import type { Metrics, ReconcileOutcome } from './metrics.ts'
import { type AddOptions, lowPriority, WorkQueue } from './queue.ts'

/** What a pass that went well asks for. */
export type ReconcileResult = { requeueAfterMs?: number | undefined } | undefined

/** Looks and does for one key; the signal aborts at the pass's deadline and when the controller is stopped for good. */
export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult>

export type ControllerOptions = {
  name: string
  workers: number
  reconcile: Reconcile
  /** All keys there are, for the resync. Absent: no resync. */
  keys?: (() => Iterable<string>) | undefined
  /** Leadership: when it aborts, running passes are aborted and no other begins. */
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
  /** Passes that run on past their deadline. */
  overdue(): { key: string; ageMs: number }[]
  /**
   * Begins no other pass and waits for the running ones; after `graceMs` (20 s) their signals abort, and after
   * another 5 s those that still run are named in the log and left alone.
   */
  stop(graceMs?: number): Promise<void>
}

const defaults = { deadlineMs: 120_000, resyncMs: 600_000, graceMs: 20_000, abortMs: 5_000 }

/** Exceptions that only a mistake in the code raises; counted apart, since no retry mends them. */
const isMistake = (error: unknown): boolean =>
  !(error instanceof Error) ||
  error instanceof TypeError ||
  error instanceof ReferenceError ||
  error instanceof RangeError ||
  error instanceof SyntaxError

export function startController(options: ControllerOptions): Controller {
  const { name, reconcile, keys, metrics, clock = systemClock, random = Math.random } = options
  const { deadlineMs = defaults.deadlineMs, resyncMs = defaults.resyncMs } = options
  const logger = options.logger.child({ controller: name })
  const queueMetrics = metrics?.queue(name)
  const queue = new WorkQueue({
    clock,
    ...(options.limits && { limits: options.limits }),
    ...(queueMetrics && { metrics: queueMetrics }),
  })
  const unwatch = metrics?.watchQueue(name, () => queue.state)
  /** The signals of running passes. */
  const passes = new Map<string, AbortController>()

  const conclude = (key: string, result: ReconcileResult): ReconcileOutcome => {
    queue.forget(key)
    if (result?.requeueAfterMs === undefined) return 'success'
    queue.addAfter(key, result.requeueAfterMs)
    return 'requeue_after'
  }

  const fail = (key: string, error: unknown, timedOut: boolean): ReconcileOutcome => {
    queue.addRateLimited(key)
    const details = { key, retries: queue.retries(key), err: error }
    if (isClusterError(error, 'Conflict')) {
      logger.debug(details, 'decided on an old state, looking again')
      return 'conflict'
    }
    if (isMistake(error)) {
      logger.error(details, 'the reconciler threw')
      return 'panic'
    }
    if (options.signal?.aborted) logger.debug(details, 'the pass was cut off')
    else logger.warn(details, timedOut ? 'the pass did not end by its deadline' : 'the pass failed, trying again')
    return timedOut ? 'timeout' : 'error'
  }

  /** Aborts the pass at its deadline, then names it in the log, ever more rarely, as long as it runs. */
  const supervise = (key: string, pass: AbortController, startedAt: number): (() => void) => {
    let waitMs = deadlineMs
    const remind = () => {
      if (!pass.signal.aborted) pass.abort(new Error(`the pass took longer than ${deadlineMs} ms`))
      logger.error({ key, ageMs: Math.round(clock.now() - startedAt) }, 'a pass is past its deadline')
      waitMs *= 2
      cancel = clock.after(waitMs, remind)
    }
    let cancel = clock.after(waitMs, remind)
    return () => cancel()
  }

  const runPass = async (key: string) => {
    const pass = new AbortController()
    if (options.signal?.aborted) pass.abort(options.signal.reason)
    passes.set(key, pass)
    const startedAt = clock.now()
    const release = supervise(key, pass, startedAt)
    let outcome: ReconcileOutcome
    try {
      outcome = conclude(key, await reconcile(key, pass.signal))
    } catch (error) {
      outcome = fail(key, error, clock.now() - startedAt >= deadlineMs)
    } finally {
      release()
      passes.delete(key)
    }
    metrics?.reconciled(name, outcome, clock.now() - startedAt)
  }

  const work = async () => {
    for (let next = await queue.next(); next; next = await queue.next()) {
      await runPass(next.key)
      queue.done(next.key)
    }
  }

  let cancelResync: (() => void) | undefined
  /** Spread over a tenth of the interval, so that the resync is a trickle and not a wave. */
  const scheduleResync = () => {
    if (!keys) return
    cancelResync = clock.after(resyncMs * (0.9 + random() * 0.2), () => {
      try {
        for (const key of keys()) queue.addAfter(key, (random() * resyncMs) / 10, { priority: lowPriority })
      } catch (error) {
        logger.error({ err: error }, 'the resync failed')
      }
      scheduleResync()
    })
  }

  const cutOff = () => {
    void queue.shutDown()
    cancelResync?.()
    for (const pass of passes.values()) pass.abort(options.signal?.reason ?? new Error('the controller is stopped'))
  }
  options.signal?.addEventListener('abort', cutOff, { once: true })
  const workers = Array.from({ length: options.workers }, work)
  scheduleResync()
  if (options.signal?.aborted) cutOff()

  const endOf = async (graceMs: number): Promise<void> => {
    const ended = Promise.all(workers)
    const timeUp = Promise.withResolvers<void>()
    let cancel = clock.after(graceMs, () => {
      cutOff()
      cancel = clock.after(defaults.abortMs, () => {
        logger.error({ keys: [...passes.keys()] }, 'stopped while passes are still running')
        timeUp.resolve()
      })
    })
    await Promise.race([ended, timeUp.promise])
    cancel()
  }

  return {
    name,
    enqueue: (key, add) => queue.add(key, add),
    enqueueAfter: (key, delayMs, add) => queue.addAfter(key, delayMs, add),
    overdue: () => queue.state.running.filter(({ ageMs }) => ageMs > deadlineMs),
    async stop(graceMs = defaults.graceMs) {
      cancelResync?.()
      void queue.shutDown()
      await endOf(graceMs)
      options.signal?.removeEventListener('abort', cutOff)
      unwatch?.()
    },
  }
}
