/**
 * Measures sizes in Postgres as background jobs: a measurement reads the size of every file, and may take minutes. The
 * pause between two measurements of a database depends on the duration of the last one, and doubles after each failure.
 */
import type { Logger } from 'pino'
import { systemClock } from '../../../cluster/informer/index.ts'
import { createBackgroundJobs } from '../../background-jobs/background-jobs.ts'
import type { PostgresTarget } from '../../postgres/administrator.ts'
import type { PostgresAccess } from './access.ts'

/** `bytes`: undefined if Postgres reports no size. */
type Measure = (access: PostgresAccess, target: PostgresTarget, signal: AbortSignal) => Promise<number | undefined>

type Measurement = {
  /** The kind of the background jobs. */
  kind: string
  measure: Measure
  /** The shortest pause. `changing`: after the size has changed; `still`: after the size was the same. */
  pauseMs: { changing: number; still: number }
  longestPauseMs: number
  /** A measurement that takes longer is cancelled, because Postgres reports no progress. */
  stallMs: number
  /** If true, reports every measurement. If false, reports only a different size. */
  reportsEach: boolean
}

/** The size of the data, for the status. */
export const dataSize: Measurement = {
  kind: 'measure',
  measure: (access, target, signal) => access.measure(target, signal),
  pauseMs: { changing: 600_000, still: 600_000 },
  longestPauseMs: 24 * 3600_000,
  stallMs: 3600_000,
  reportsEach: false,
}

/**
 * Postgres's use of its volume, for a volume that grows automatically. The use includes more files than the size of the
 * data, and the operator measures the use more often.
 */
export const volumeUse: Measurement = {
  kind: 'measure-volume',
  measure: (access, target, signal) => access.measureVolume(target, signal),
  pauseMs: { changing: 60_000, still: 300_000 },
  longestPauseMs: 3600_000,
  stallMs: 600_000,
  reportsEach: true,
}

export type MeasureRequest = {
  key: string
  access: PostgresAccess
  target: PostgresTarget
  /** The run of Postgres. A measurement from a previous run is cancelled. */
  run: string
  /** The WAL position. The next measurement waits until this position has advanced. Undefined if unknown. */
  walPosition?: string | undefined
}

export type Measured = {
  /** When the measurement ended, and how long it took, in ms. */
  at: number
  tookMs: number
  /** Consecutive failures. */
  failures: number
  /** The last measured size. */
  bytes: number | undefined
  /** The size differs from the previous one by more than 1 MiB. */
  isChanging: boolean
  walPosition: string | undefined
}

/** Measurements of one kind take at most this share of the time, unless `longestPauseMs` limits the pause. */
const share = 0.01
const noticeableBytes = 1024 * 1024
/** Measurements load the disk. `atOnce`: how many run at the same time, over all databases. */
const limits = { atOnce: 2, mostWaiting: 1_000 }

/** Returns the time of the next measurement, in ms since the epoch. Undefined if WAL must advance first. Pure. */
export function nextMeasurement(
  { pauseMs, longestPauseMs }: Pick<Measurement, 'pauseMs' | 'longestPauseMs'>,
  last: Measured | undefined,
  walPosition: string | undefined,
): number | undefined {
  if (last === undefined) return 0
  if (last.failures === 0 && last.walPosition !== undefined && last.walPosition === walPosition) return undefined
  const shortest = last.isChanging ? pauseMs.changing : pauseMs.still
  return last.at + Math.min(longestPauseMs, Math.max(shortest, last.tookMs / share) * 2 ** last.failures)
}

/** `result`: undefined if the measurement failed. */
type Ended = Pick<Measured, 'at' | 'tookMs'> & { result: Pick<Measured, 'bytes' | 'walPosition'> | undefined }

/** Returns the state after a measurement. A failure keeps the previous size. Pure. */
export function afterMeasurement(last: Measured | undefined, { at, tookMs, result }: Ended): Measured {
  const { bytes, walPosition } = last ?? {}
  if (result === undefined)
    return { at, tookMs, failures: (last?.failures ?? 0) + 1, bytes, isChanging: false, walPosition }
  const isChanging =
    bytes === undefined || result.bytes === undefined || Math.abs(result.bytes - bytes) > noticeableBytes
  return { at, tookMs, failures: 0, isChanging, ...result }
}

type Options = { now: () => number; onMeasured: (key: string) => void; logger: Logger }

/** The measurements of one kind, by member key. */
export class Measurements {
  readonly #measurement: Measurement
  readonly #options: Options
  readonly #measured = new Map<string, Measured>()
  readonly #jobs: ReturnType<typeof createBackgroundJobs<NonNullable<Ended['result']>>>

  constructor(measurement: Measurement, options: Options) {
    const { now, logger } = options
    this.#measurement = measurement
    this.#options = options
    this.#jobs = createBackgroundJobs({
      limits: { ...limits, stallMs: measurement.stallMs },
      onEnd: key => this.#record(key),
      logger,
      clock: { ...systemClock, now },
    })
  }

  /** The last measured size, in bytes. */
  get(key: string): number | undefined {
    return this.#measured.get(key)?.bytes
  }

  /**
   * Measures if a measurement is due.
   * @returns when the next measurement is due, in ms since the epoch; undefined while a measurement runs, or if WAL
   * must advance first
   */
  request({ key, access, target, run, walPosition }: MeasureRequest): number | undefined {
    const state = this.#jobs.state(key)?.state
    if (state !== 'waiting' && state !== 'running') {
      const at = nextMeasurement(this.#measurement, this.#measured.get(key), walPosition)
      if (at === undefined || at > this.#options.now()) return at
      this.#jobs.cancel(key)
    }
    const { kind, measure } = this.#measurement
    this.#jobs.request(key, {
      kind,
      purpose: run,
      run: async ({ signal }) => ({ bytes: await measure(access, target, signal), walPosition }),
    })
    return undefined
  }

  forget(key: string): void {
    this.#measured.delete(key)
    this.#jobs.cancel(key)
  }

  stop(): Promise<void> {
    return this.#jobs.stop()
  }

  #record(key: string): void {
    const ended = this.#jobs.state(key)
    if (ended?.state !== 'failed' && ended?.state !== 'succeeded') return
    const { at, tookMs } = ended
    const last = this.#measured.get(key)
    const next = afterMeasurement(last, { at, tookMs, result: ended.state === 'succeeded' ? ended.result : undefined })
    this.#measured.set(key, next)
    if (this.#measurement.reportsEach || next.bytes !== last?.bytes) this.#options.onMeasured(key)
  }
}
