/**
 * Stores which growth of a volume the cluster refused. A condition reports the refusal, and the next request waits. No
 * event reports a change of a quota or storage class. So the operator repeats the request, with increasing pauses.
 * After its own restart, the operator repeats the request at once.
 */

import type { PersistentVolumeClaim } from '../../../cluster/index.ts'
import type { GrowthRefusal } from '../observed.ts'

const firstRetryMs = 1_000
const lastRetryMs = 60_000

export type GrowthRefusals = {
  /** The last refusal. Undefined after the cluster has accepted a growth. */
  refusalOf(key: string): GrowthRefusal | undefined
  refused(key: string, claim: PersistentVolumeClaim, message: string): void
  admitted(key: string): void
  forget(key: string): void
}

type Entry = Omit<GrowthRefusal, 'isDue'> & { pauseMs: number }

export function createGrowthRefusals(now: () => number): GrowthRefusals {
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
