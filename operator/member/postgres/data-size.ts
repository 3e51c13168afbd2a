/**
 * How large the data are: told in the status, and part of nothing else. Postgres looks at every file to say it, which
 * may take minutes; so it is asked apart from the looks, one database after the other, only where WAL has moved
 * since, and the less often the longer it takes.
 */
import type { Logger } from 'pino'
import { systemClock } from '../../../cluster/informer/index.ts'
import { createErrands, type Errand } from '../../errands/errands.ts'
import type { PostgresTarget } from '../../postgres/administrator.ts'
import type { PostgresAccess } from './access.ts'

export type SizeRequest = {
  key: string
  access: PostgresAccess
  target: PostgresTarget
  run: string
  /** Where WAL stood at the last look. */
  walPosition: string | undefined
}

type Sizes = {
  /** In bytes, as last measured. */
  get(key: string): number | undefined
  /** Has it measured, if it is due; one that is under way in an earlier run of Postgres is broken off. */
  request(request: SizeRequest): void
  forget(key: string): void
  stop(): Promise<void>
}

export type Measured = {
  /** When it ended, and how long it took, in ms. */
  at: number
  tookMs: number
  /** Tries in a row that came to nothing. */
  failures: number
  bytes: number | undefined
  walPosition: string | undefined
}

/** At most so often. */
const intervalMs = 600_000
/** And with at most this share of the time. */
const share = 0.01
const rarestMs = 24 * 3600_000
/** They are heavy for a disk: a few at a time, of all databases. Postgres says nothing while it counts. */
const limits = { atOnce: 2, mostWaiting: 1_000, stallMs: 3600_000 }

/** When to measure again, in ms since the epoch; undefined: not before WAL has moved. Pure. */
export function nextMeasure(last: Measured | undefined, walPosition: string | undefined): number | undefined {
  if (last === undefined) return 0
  const isSettled = last.failures === 0 && last.walPosition !== undefined && last.walPosition === walPosition
  if (isSettled) return undefined
  const waitMs = Math.max(intervalMs, last.tookMs / share) * 2 ** last.failures
  return last.at + Math.min(rarestMs, waitMs)
}

export function createSizes(options: { now: () => number; onMeasured: (key: string) => void; logger: Logger }): Sizes {
  const { now, onMeasured, logger } = options
  const measured = new Map<string, Measured>()
  /** Where WAL stood when a measurement was asked for. */
  const positions = new Map<string, string | undefined>()

  const note = (key: string) => {
    const ended = errands.state(key)
    const last = measured.get(key)
    if (ended?.state === 'failed')
      measured.set(key, {
        at: ended.at,
        tookMs: ended.tookMs,
        failures: (last?.failures ?? 0) + 1,
        bytes: last?.bytes,
        walPosition: last?.walPosition,
      })
    if (ended?.state !== 'succeeded') return
    const { at, tookMs, result: bytes } = ended
    measured.set(key, { at, tookMs, failures: 0, bytes, walPosition: positions.get(key) })
    if (bytes !== last?.bytes) onMeasured(key)
  }
  const errands = createErrands<number | undefined>({ limits, onEnd: note, logger, clock: { ...systemClock, now } })

  const isUnderWay = (key: string): boolean => {
    const state = errands.state(key)?.state
    return state === 'waiting' || state === 'running'
  }

  return {
    get: key => measured.get(key)?.bytes,
    request: ({ key, access, target, run, walPosition }) => {
      const errand: Errand<number | undefined> = {
        kind: 'measure',
        purpose: run,
        run: ({ signal }) => access.measure(target, signal),
      }
      if (!isUnderWay(key)) {
        const at = nextMeasure(measured.get(key), walPosition)
        if (at === undefined || at > now()) return
        errands.cancel(key)
        positions.set(key, walPosition)
      }
      errands.ask(key, errand)
    },
    forget: key => {
      measured.delete(key)
      positions.delete(key)
      errands.cancel(key)
    },
    stop: () => errands.stop(),
  }
}
