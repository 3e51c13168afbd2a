/**
 * Errands: work that outlives a pass, such as a measurement of minutes, a checkpoint, a check of all checksums or an
 * upload. A pass asks for one and is told at once how it stands; the errand runs beside the passes, and its subject is
 * looked at again when it ends. What is promised:
 *
 * - One errand of a kind runs for a subject at a time, and of each kind at most so many at once; the others wait their turn.
 * - It has no time limit, but one on standing still: whoever reports no progress for `stallMs` is cancelled and has failed.
 * - Nothing is kept of it but in memory. After a crash the first pass asks again; an errand that can be found where it is
 *   done (`find`: a Job, a backend of Postgres, an upload) is joined or its result is taken, and begun anew otherwise.
 */
// @ts-nocheck

import type { Logger } from 'pino'
import { type Clock, systemClock } from '../../cluster/informer/index.ts'

/** What an errand works with: it ends what it began when the signal aborts, and reports each time that it is further. */
export type ErrandContext = { signal: AbortSignal; progressed: () => void }

/** What is found of an errand that another pass began, maybe another process, before a crash. */
type Found<Result> =
  | { state: 'absent' }
  | { state: 'running'; join: () => Promise<Result> }
  | { state: 'done'; result: Result }

export type Errand<Result> = {
  /** `measure`, `checkpoint`: a subject has at most one errand of a kind. */
  kind: string
  /** What it is done for. Another value ends the one that runs for the former, and what came of it counts no more. */
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

/** How the errands of one kind are run. */
export type ErrandLimits = {
  /** So many at once, of all subjects. */
  atOnce: number
  /** So many wait for their turn; who comes after that asks again. */
  mostWaiting: number
  /** Without progress for so long an errand is cancelled. */
  stallMs: number
}

export class StalledError extends Error {
  override readonly name = 'StalledError'
}

/** The errands of one kind, by the keys of their subjects. */
type Errands<Result> = {
  /** Has it done, unless it runs, waits or has ended for this purpose already. */
  ask(key: string, errand: Errand<Result>): ErrandState<Result>
  state(key: string): ErrandState<Result> | undefined
  /** Ends it and forgets it: asked for again, it is done again. */
  cancel(key: string): void
  /** Ends all, and waits until none runs; after `graceMs` (5 s) those that do not end are named in the log. */
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

export function createErrands<Result>({ limits, onEnd, logger, clock = systemClock }: ErrandOptions): Errands<Result> {
  const entries = new Map<string, Entry<Result>>()
  /** Keys that wait, in the order in which they came. */
  const waiting = new Set<string>()
  const running = new Map<Promise<void>, { key: string; kind: string }>()
  let stopped = false

  const carryOut = async (errand: Errand<Result>, context: ErrandContext): Promise<Result> => {
    if (errand.find === undefined) return errand.run(context)
    const found = await errand.find(context)
    if (found.state === 'done') return found.result
    return found.state === 'running' ? found.join() : errand.run(context)
  }

  const begin = async (key: string, entry: Entry<Result>): Promise<void> => {
    const { errand, abort } = entry
    const since = clock.now()
    const cancelled = Promise.withResolvers<never>()
    let cancelStall = () => {}
    const progressed = () => {
      if (abort.signal.aborted) return
      cancelStall()
      entry.state = { state: 'running', since, progressedAt: clock.now() }
      cancelStall = clock.after(limits.stallMs, () => {
        abort.abort(new StalledError(`no progress for ${Math.round(limits.stallMs / 1000)} s`))
      })
    }
    progressed()
    abort.signal.addEventListener('abort', () => cancelled.reject(abort.signal.reason), { once: true })
    const work = carryOut(errand, { signal: abort.signal, progressed })
    const end = (outcome: { result: Result } | { error: unknown }) => {
      cancelStall()
      const isCounted = entries.get(key) === entry
      const tookMs = clock.now() - since
      if ('result' in outcome) {
        entry.state = { state: 'succeeded', at: clock.now(), tookMs, result: outcome.result }
      } else {
        entry.state = { state: 'failed', at: clock.now(), tookMs, error: outcome.error }
        if (isCounted) logger.warn({ key, kind: errand.kind, err: outcome.error }, 'an errand failed')
      }
      if (isCounted) onEnd(key)
    }
    // One that does not heed its signal has failed all the same, and holds its place until it ends.
    await Promise.race([work, cancelled.promise]).then(
      result => end({ result }),
      error => end({ error }),
    )
    await work.catch(() => {})
  }

  const pump = () => {
    for (const key of waiting) {
      if (running.size >= limits.atOnce || stopped) return
      waiting.delete(key)
      const entry = entries.get(key)
      if (entry === undefined) continue
      const end = begin(key, entry).finally(() => {
        running.delete(end)
        pump()
      })
      running.set(end, { key, kind: entry.errand.kind })
    }
  }

  const enter = (key: string, errand: Errand<Result>): ErrandState<Result> => {
    if (stopped || waiting.size >= limits.mostWaiting) return { state: 'waiting' }
    const entry: Entry<Result> = { errand, state: { state: 'waiting' }, abort: new AbortController() }
    entries.set(key, entry)
    waiting.add(key)
    pump()
    return entry.state
  }

  const leave = (key: string, why: string) => {
    const entry = entries.get(key)
    entries.delete(key)
    waiting.delete(key)
    entry?.abort.abort(new Error(why))
  }

  return {
    ask: (key, errand) => {
      const entry = entries.get(key)
      if (entry?.errand.purpose === errand.purpose) return entry.state
      if (entry !== undefined) leave(key, 'it is done for something else now')
      return enter(key, errand)
    },
    state: key => entries.get(key)?.state,
    cancel: key => leave(key, 'it is not wanted any more'),
    stop: async (graceMs = 5_000) => {
      stopped = true
      for (const key of [...entries.keys()]) leave(key, 'the operator stops')
      const grace = Promise.withResolvers<void>()
      const cancelGrace = clock.after(graceMs, grace.resolve)
      await Promise.race([Promise.all(running.keys()), grace.promise])
      cancelGrace()
      for (const { key, kind } of running.values()) logger.error({ key, kind }, 'an errand does not end')
    },
  }
}
