/** The checkpoints before snapshots: errands, since one takes as long as the disk does. */
// @ts-nocheck

import type { Logger } from 'pino'
import { systemClock } from '../../cluster/informer/index.ts'
import { createErrands } from '../errands/errands.ts'
import type { PostgresTarget, RestorePoint } from '../postgres/administrator.ts'
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

/** `stallMs`: Postgres says nothing while it makes one; after so long it is given up. */
export function createCheckpoints(options: {
  stallMs: number
  onEnd: (key: string) => void
  logger: Logger
  now: () => number
}): Checkpoints {
  const { stallMs, onEnd, logger, now } = options
  const uids = new Map<string, string>()
  const errands = createErrands<RestorePoint>({
    limits: { ...limits, stallMs },
    onEnd,
    logger,
    clock: { ...systemClock, now },
  })

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
      errands.ask(key, { kind: 'checkpoint', purpose: uid, run: ({ signal }) => access.checkpoint(target, signal) })
    },
    forget: key => {
      if (uids.delete(key)) errands.cancel(key)
    },
    stop: () => errands.stop(),
  }
}
