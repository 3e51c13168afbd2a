/**
 * How large the data are: told in the status, and part of nothing else. Postgres looks at every file to say it, which
 * may take minutes; so it is asked apart from the looks, one database after the other, only where WAL has moved
 * since, and the less often the longer it takes.
 */
import type { Logger } from 'pino'
import type { PostgresTarget } from '../postgres/administrator.ts'
import type { PostgresAccess } from './access.ts'

export type SizeRequest = {
  key: string
  access: PostgresAccess
  target: PostgresTarget
  run: string
  /** Where WAL stood at the last look. */
  walPosition: string | undefined
}

export type Sizes = {
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
/** They are heavy for a disk: a few at a time, of all databases. */
const concurrentMeasures = 2
/** So many wait for their turn; the others ask again. */
const mostWaiting = 1_000

/** When to measure again, in ms since the epoch; undefined: not before WAL has moved. Pure. */
export function nextMeasure(last: Measured | undefined, walPosition: string | undefined): number | undefined {
  if (last === undefined) return 0
  const isSettled = last.failures === 0 && last.walPosition !== undefined && last.walPosition === walPosition
  if (isSettled) return undefined
  const waitMs = Math.max(intervalMs, last.tookMs / share) * 2 ** last.failures
  return last.at + Math.min(rarestMs, waitMs)
}

type Running = { run: string; abort: AbortController }

export function createSizes(options: { now: () => number; onMeasured: (key: string) => void; logger: Logger }): Sizes {
  const { now, onMeasured, logger } = options
  const measured = new Map<string, Measured>()
  const waiting = new Map<string, SizeRequest>()
  const running = new Map<string, Running>()
  const ended = new Set<Promise<void>>()
  let stopped = false

  const measure = async ({ key, access, target, walPosition }: SizeRequest, abort: AbortController) => {
    const startedAt = now()
    const last = measured.get(key)
    const note = (more: Pick<Measured, 'failures' | 'bytes' | 'walPosition'>) => {
      if (!abort.signal.aborted) measured.set(key, { at: now(), tookMs: now() - startedAt, ...more })
    }
    try {
      const bytes = await access.measure(target, abort.signal)
      note({ failures: 0, bytes, walPosition })
    } catch (error) {
      note({ failures: (last?.failures ?? 0) + 1, bytes: last?.bytes, walPosition: last?.walPosition })
      if (!abort.signal.aborted) logger.debug({ key, err: error }, 'the size of a database could not be measured')
    }
    if (!abort.signal.aborted && measured.get(key)?.bytes !== last?.bytes) onMeasured(key)
  }

  const pump = () => {
    for (const [key, request] of waiting) {
      if (running.size >= concurrentMeasures || stopped) return
      if (running.has(key)) continue
      waiting.delete(key)
      const abort = new AbortController()
      running.set(key, { run: request.run, abort })
      const end = measure(request, abort).finally(() => {
        running.delete(key)
        ended.delete(end)
        pump()
      })
      ended.add(end)
    }
  }

  return {
    get: key => measured.get(key)?.bytes,
    request: request => {
      const { key, run, walPosition } = request
      const current = running.get(key)
      if (current !== undefined && current.run !== run) current.abort.abort(new Error('Postgres was started anew'))
      else if (current !== undefined || stopped) return
      const at = nextMeasure(measured.get(key), walPosition)
      if (at === undefined || at > now()) return
      if (waiting.has(key) || waiting.size < mostWaiting) waiting.set(key, request)
      pump()
    },
    forget: key => {
      measured.delete(key)
      waiting.delete(key)
      running.get(key)?.abort.abort(new Error('the database is gone'))
    },
    stop: async () => {
      stopped = true
      waiting.clear()
      for (const { abort } of running.values()) abort.abort(new Error('the operator stops'))
      await Promise.all(ended)
    },
  }
}
