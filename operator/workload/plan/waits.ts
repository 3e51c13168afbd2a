/**
 * The time of an instance's next pass without an event, in ms since the epoch. Also the smallest change of its size
 * that is written to the status.
 */

import { conflictTimes } from '../../children/drift.ts'
import { awaitsRetry } from '../../member/storage/plan/growth.ts'
import { isUnprovisioned } from '../../member/storage/plan/unprovisioned.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'

/** For an instance that should exist. */
export const nextPassAt = (observed: Observed, assessment: Assessment, now: number): number | undefined =>
  earliest(
    nodeRequeueAt(observed, now),
    growthRetry(observed, assessment),
    volumeRequeueAt(observed, now),
    assessment.services.requeueAt,
    ...conflictTimes(observed),
  )

/** How soon to read a silent node again. Nodes have no informer. */
const silentNodeMs = 30_000

export const nodeRequeueAt = ({ node }: Observed, now: number): number | undefined =>
  node?.silentSince === undefined ? undefined : now + silentNodeMs

/** How soon to read a volume without its owner's label again. Until it has the label, no informer has it. */
const unlabelledMs = 1_000
/** How often to read a waiting claim, at first and later. No event reports its provisioning. */
const provisioningMs = { first: 5_000, later: 30_000, after: 120_000 }

function volumeRequeueAt(observed: Observed, now: number): number | undefined {
  const { volumes, children } = observed
  if (volumes.bound !== undefined && !volumes.bound.isLabelled) return now + unlabelledMs
  if (!isUnprovisioned(observed)) return undefined
  const { first, later, after } = provisioningMs
  const isFresh = now - Date.parse(children.claim?.metadata.creationTimestamp ?? '') < after
  return now + (isFresh ? first : later)
}

/** When to request a refused growth again. */
function growthRetry(
  { children: { claim }, size, growthRefusal }: Observed,
  { autogrown }: Assessment,
): number | undefined {
  const requested = [size?.spec.shape.storageSize, autogrown.storage].filter(storage => storage !== undefined)
  const isDelayed = claim && requested.some(storage => awaitsRetry(growthRefusal, claim, storage))
  return isDelayed ? growthRefusal?.retryAt : undefined
}

/** A smaller change of the size on disk is not written to the status. */
const noticeableBytes = 1024 * 1024

export function storageUsed(before: number | undefined, now: number | undefined): number | undefined {
  if (now === undefined || before === undefined) return now ?? before
  return Math.abs(now - before) > Math.max(noticeableBytes, before / 20) ? now : before
}
