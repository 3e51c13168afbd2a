/**
 * How much of its volume a Postgres takes up, for those whose volume is to grow by itself. Apart from the size of the data
 * (data-size.ts), since more is counted, and more often: every minute while it changes, every five where it does not.
 */
import type { Logger } from 'pino'
import { systemClock } from '../../../cluster/informer/index.ts'
import { createErrands } from '../../errands/errands.ts'
import type { PostgresTarget } from '../../postgres/administrator.ts'
import type { PostgresAccess } from '../postgres/access.ts'

export type UseRequest = { key: string; access: PostgresAccess; target: PostgresTarget; run: string }

type VolumeUse = {
  /** In bytes, as last measured. */
  get(key: string): number | undefined
  /** Has it measured, if it is due. @returns when it is due next, in ms since the epoch; undefined while it is under way */
  request(request: UseRequest): number | undefined
  forget(key: string): void
  stop(): Promise<void>
}

export type MeasuredUse = {
  /** When it ended, and how long it took, in ms. */
  at: number
  tookMs: number
  /** Tries in a row that came to nothing. */
  failures: number
  bytes: number | undefined
  /** It was another value than the time before, by more than a trifle. */
  isChanging: boolean
}

const pauseMs = { changing: 60_000, still: 300_000 }
/** With at most this share of the time. */
const share = 0.01
const rarestMs = 3600_000
const trifleBytes = 1024 * 1024
/** They are heavy for a disk: a few at a time, of all databases. Postgres says nothing while it counts. */
const limits = { atOnce: 2, mostWaiting: 1_000, stallMs: 600_000 }

/** When to measure again, in ms since the epoch. Pure. */
export function nextUse(last: MeasuredUse | undefined): number {
  if (last === undefined) return 0
  const pause = last.isChanging ? pauseMs.changing : pauseMs.still
  return last.at + Math.min(rarestMs, Math.max(pause, last.tookMs / share) * 2 ** last.failures)
}

/** What is known after a measurement that ended so. Pure. */
export function afterUse(
  last: MeasuredUse | undefined,
  { at, tookMs, bytes }: { at: number; tookMs: number; bytes: number | undefined },
): MeasuredUse {
  if (bytes === undefined)
    return { at, tookMs, failures: (last?.failures ?? 0) + 1, bytes: last?.bytes, isChanging: false }
  const isChanging = last?.bytes === undefined || Math.abs(bytes - last.bytes) > trifleBytes
  return { at, tookMs, failures: 0, bytes, isChanging }
}

export function createVolumeUse(options: {
  now: () => number
  onMeasured: (key: string) => void
  logger: Logger
}): VolumeUse {
  const { now, onMeasured, logger } = options
  const measured = new Map<string, MeasuredUse>()

  const note = (key: string) => {
    const ended = errands.state(key)
    if (ended?.state !== 'failed' && ended?.state !== 'succeeded') return
    const { at, tookMs } = ended
    const bytes = ended.state === 'succeeded' ? ended.result : undefined
    measured.set(key, afterUse(measured.get(key), { at, tookMs, bytes }))
    // By this pass the next measurement is arranged, too.
    onMeasured(key)
  }
  const errands = createErrands<number>({ limits, onEnd: note, logger, clock: { ...systemClock, now } })

  return {
    get: key => measured.get(key)?.bytes,
    request: ({ key, access, target, run }) => {
      const state = errands.state(key)?.state
      const isUnderWay = state === 'waiting' || state === 'running'
      const at = nextUse(measured.get(key))
      if (!isUnderWay && at > now()) return at
      if (!isUnderWay) errands.cancel(key)
      errands.ask(key, {
        kind: 'measure-volume',
        purpose: run,
        run: ({ signal }) => access.measureVolume(target, signal),
      })
      return undefined
    },
    forget: key => {
      measured.delete(key)
      errands.cancel(key)
    },
    stop: () => errands.stop(),
  }
}
