/**
 * Remembers which growth of a volume the cluster has refused, so that it is told and not asked for in a loop. Nothing tells
 * when a quota or a storage class has changed: it is asked again by and by. A new process asks at once, and learns the same.
 */

import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { GrowthRefusal } from '../observed.ts'

const firstRetryMs = 1_000
const lastRetryMs = 60_000

export type GrowthBook = {
  /** The last refusal, until a growth is admitted. */
  refusalOf(key: string): GrowthRefusal | undefined
  refused(key: string, claim: PersistentVolumeClaim, message: string): void
  admitted(key: string): void
  forget(key: string): void
}

type Entry = Omit<GrowthRefusal, 'isDue'> & { pauseMs: number }

export function createGrowthBook(now: () => number): GrowthBook {
  const refusals = new Map<string, Entry>()
  const forget = (key: string) => {
    refusals.delete(key)
  }
  return {
    refusalOf: key => {
      const entry = refusals.get(key)
      if (entry === undefined) return undefined
      const { pauseMs: _, ...refusal } = entry
      return { ...refusal, isDue: now() >= refusal.retryAt }
    },
    refused: (key, claim, message) => {
      const { uid = '' } = claim.metadata
      const storage = claim.spec?.resources?.requests?.storage ?? ''
      const before = refusals.get(key)
      const isAgain = before?.claim === uid && before.storage === storage
      const pauseMs = isAgain ? Math.min(2 * before.pauseMs, lastRetryMs) : firstRetryMs
      refusals.set(key, { claim: uid, storage, message, retryAt: now() + pauseMs, pauseMs })
    },
    admitted: forget,
    forget,
  }
}
