/** Runs the checkpoints before snapshots, as background jobs, because a checkpoint may take minutes. */
import type { Logger } from 'pino'
import { type Clock, systemClock } from '../../cluster/informer/index.ts'
import { createBackgroundJobs } from '../background-jobs/background-jobs.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { isPassing, type PostgresTarget, type RestorePoint } from '../postgres/administrator.ts'
import type { CheckpointFacts } from './observed.ts'

/** One backup: its key, and its uid, to distinguish it from another backup of the same name. */
type Subject = { key: string; uid: string }

export type Checkpoints = {
  /** `target`: the Postgres that runs now. */
  facts(subject: Subject, target: PostgresTarget | undefined): CheckpointFacts
  /** Starts a checkpoint, unless it is running or done. Starts it again if Postgres did not answer. */
  request(subject: Subject, access: PostgresAccess, target: PostgresTarget): void
  forget(key: string): void
  stop(): Promise<void>
}

const limits = { atOnce: 8, mostWaiting: 10_000 }

const addressOf = ({ host, port }: PostgresTarget): string => `${host}:${port}`

/** `stallMs`: timeout of a checkpoint. Postgres reports no progress, so it limits the whole checkpoint. */
export function createCheckpoints(options: {
  stallMs: number
  onEnd: (key: string) => void
  logger: Logger
  now: () => number
}): Checkpoints {
  const { stallMs, onEnd, logger, now } = options
  const uids = new Map<string, string>()
  /** The address of the Postgres that runs the checkpoint, by key. */
  const hosts = new Map<string, string>()
  /** The number of consecutive attempts that Postgres did not answer, by key. */
  const unanswered = new Map<string, number>()
  const clock: Clock = { ...systemClock, now }
  const jobs = createBackgroundJobs<RestorePoint>({ limits: { ...limits, stallMs }, onEnd, logger, clock })

  const isReplaced = (key: string, target: PostgresTarget): boolean => hosts.get(key) !== addressOf(target)

  return {
    facts: ({ key, uid }, target) => {
      const state = uids.get(key) === uid ? jobs.state(key) : undefined
      if (state === undefined) return { state: 'unasked' }
      if (state.state === 'succeeded') return { state: 'succeeded', point: state.result }
      // The previous Postgres may never report the end, for example if its node was lost.
      if (state.state === 'running' && target !== undefined && isReplaced(key, target))
        return {
          state: 'unanswered',
          message: 'Postgres was replaced during the checkpoint',
          at: state.since,
          failures: 0,
        }
      if (state.state === 'running') return { state: 'running', since: state.since }
      if (state.state === 'waiting') return { state: 'waiting' }
      const message = state.error instanceof Error ? state.error.message : String(state.error)
      if (!isPassing(state.error)) return { state: 'failed', message }
      return { state: 'unanswered', message, at: state.at, failures: (unanswered.get(key) ?? 0) + 1 }
    },
    request: ({ key, uid }, access, target) => {
      if (uids.get(key) !== uid) unanswered.delete(key)
      uids.set(key, uid)
      const before = jobs.state(key)
      if (before?.state === 'running' && isReplaced(key, target)) jobs.cancel(key)
      hosts.set(key, addressOf(target))
      if (before?.state === 'failed' && isPassing(before.error)) {
        unanswered.set(key, (unanswered.get(key) ?? 0) + 1)
        jobs.cancel(key)
      }
      jobs.request(key, {
        kind: 'checkpoint',
        purpose: uid,
        run: ({ signal }) => access.checkpoint(target, signal),
      })
    },
    forget: key => {
      unanswered.delete(key)
      hosts.delete(key)
      if (uids.delete(key)) jobs.cancel(key)
    },
    stop: () => jobs.stop(),
  }
}
