/** The checkpoints before snapshots: errands, since one takes as long as the disk does. */
import type { Logger } from 'pino'
import { backoffMs, type Clock, sleep, systemClock } from '../../cluster/informer/index.ts'
import { createErrands, type ErrandContext } from '../errands/errands.ts'
import { PostgresError, type PostgresTarget, type RestorePoint } from '../postgres/administrator.ts'
import { slowReasons } from '../postgres/errors.ts'
import type { PostgresAccess } from '../workload/access.ts'
import type { CheckpointFacts } from './observed.ts'

/** One backup: its key, and its uid, so that another of that name is not mistaken for it. */
type Subject = { key: string; uid: string }

export type Checkpoints = {
  facts(subject: Subject): CheckpointFacts
  /** Has it made, unless it is under way or made already. */
  ask(subject: Subject, access: PostgresAccess, target: PostgresTarget): void
  forget(key: string): void
  stop(): Promise<void>
}

const limits = { atOnce: 8, mostWaiting: 10_000 }

/** That Postgres, or the way to it, is slow says nothing against a backup: so long it is asked again. */
const patienceMs = 120_000
const pause = { minimumMs: 500, maximumMs: 10_000 }

const isSlow = (error: unknown): boolean => error instanceof PostgresError && slowReasons.has(error.reason)

async function patiently<Result>(work: () => Promise<Result>, { signal, progressed }: ErrandContext, clock: Clock) {
  const until = clock.now() + patienceMs
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      if (!isSlow(error) || clock.now() >= until) throw error
    }
    await sleep(clock, backoffMs(failures, pause), signal)
    signal.throwIfAborted()
    progressed()
  }
}

/** `stallMs`: Postgres says nothing while it makes one; after so long it is given up. */
export function createCheckpoints(options: {
  stallMs: number
  onEnd: (key: string) => void
  logger: Logger
  now: () => number
}): Checkpoints {
  const { stallMs, onEnd, logger, now } = options
  const uids = new Map<string, string>()
  const clock = { ...systemClock, now }
  const errands = createErrands<RestorePoint>({ limits: { ...limits, stallMs }, onEnd, logger, clock })

  return {
    facts: ({ key, uid }) => {
      const state = uids.get(key) === uid ? errands.state(key) : undefined
      if (state === undefined) return { state: 'unasked' }
      if (state.state === 'succeeded') return { state: 'succeeded', point: state.result }
      if (state.state !== 'failed') return { state: state.state }
      const message = state.error instanceof Error ? state.error.message : String(state.error)
      return { state: 'failed', message }
    },
    ask: ({ key, uid }, access, target) => {
      uids.set(key, uid)
      const run = (context: ErrandContext) => patiently(() => access.checkpoint(target, context.signal), context, clock)
      errands.ask(key, { kind: 'checkpoint', purpose: uid, run })
    },
    forget: key => {
      if (uids.delete(key)) errands.cancel(key)
    },
    stop: () => errands.stop(),
  }
}
