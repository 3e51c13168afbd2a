/** When to reconcile an instance again without an event, in ms since the epoch; and which change of its size is worth a write. */

import { contestWakes } from '../../children/drift.ts'
import { awaitsRetry } from '../../member/storage/plan/growth.ts'
import { isUnprovisioned } from '../../member/storage/plan/unprovisioned.ts'
import { earliest } from '../../objects/earliest.ts'
import type { Observed } from '../observed.ts'
import type { Assessment } from './assessment.ts'

/** Of one that is to exist. */
export const nextPassAt = (observed: Observed, assessment: Assessment, now: number): number | undefined =>
  earliest(
    nodeWake(observed, now),
    growthRetry(observed, assessment),
    volumeWake(observed, now),
    assessment.services.wakeAt,
    ...contestWakes(observed),
  )

/** How soon a silent node is looked at again: nodes are not followed. */
const silentNodeMs = 30_000

export const nodeWake = ({ node }: Observed, now: number): number | undefined =>
  node?.silentSince === undefined ? undefined : now + silentNodeMs

/** How soon a volume is looked at again that does not say yet whose it is: until then it is not followed. */
const unmarkedMs = 1_000
/** How often it is asked what becomes of a claim that waits, at first and by and by: nothing tells. */
const provisioningMs = { first: 5_000, later: 30_000, after: 120_000 }

function volumeWake(observed: Observed, now: number): number | undefined {
  const { volumes, children } = observed
  if (volumes.bound !== undefined && !volumes.bound.isMarked) return now + unmarkedMs
  if (!isUnprovisioned(observed)) return undefined
  const { first, later, after } = provisioningMs
  const isFresh = now - Date.parse(children.claim?.metadata.creationTimestamp ?? '') < after
  return now + (isFresh ? first : later)
}

/** When to ask again for a growth that was refused. */
function growthRetry(
  { children: { claim }, size, growthRefusal }: Observed,
  { autogrown }: Assessment,
): number | undefined {
  const asked = [size?.spec.shape.storageSize, autogrown.storage].filter(storage => storage !== undefined)
  const isHeld = claim && asked.some(storage => awaitsRetry(growthRefusal, claim, storage))
  return isHeld ? growthRefusal?.retryAt : undefined
}

/** Below this a change of the size on disk is not worth a write. */
const noticeableBytes = 1024 * 1024

export function storageUsed(before: number | undefined, now: number | undefined): number | undefined {
  if (now === undefined || before === undefined) return now ?? before
  return Math.abs(now - before) > Math.max(noticeableBytes, before / 20) ? now : before
}
