/**
 * A volume that grows by itself: by a step each time that it is as full as was said, up to the most that was allowed. The
 * claim itself holds what was asked for, so nothing is asked for twice, whatever crashes: while the request is above the
 * capacity, a growth is under way, and no other is begun. A change of the size comes first.
 *
 * That a volume is full counts only where it was found since its present capacity was: Postgres that ended of it before, or
 * answered so, says nothing of the volume as it is now.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { Autogrow } from '../../../../crds/index.ts'
import { bytesTold, canonicalQuantity } from '../../../../values/quantity.ts'
import { timestamp } from '../../../../values/time.ts'
import { type Finding, no } from '../../../objects/conditions.ts'
import type { StorageStatus } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import type { SizeState } from '../../pod/plan/size.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import { awaitsRetry, growthOf, resizedClaim } from './growth.ts'

export type Autogrowth = {
  /** What the volume is to have by now. */
  storage: string | undefined
  /** The claim that asks for it; undefined where it does already, or must not. */
  claim: PersistentVolumeClaim | undefined
  /** What keeps it from being so, while it is not. */
  finding: Finding | undefined
  /** What is on record after this pass. */
  status: StorageStatus | undefined
}

const nothing = { storage: undefined, claim: undefined, finding: undefined }
const mebibyte = 2 ** 20

/** A step more than the volume has, in whole MiB, and no more than was allowed. */
export function nextStorage(capacity: string, { stepPercent, maxSize }: Autogrow): string | undefined {
  const [has, most] = [bytesTold(capacity) ?? 0, bytesTold(maxSize) ?? 0]
  if (has >= most) return undefined
  const mebibytes = Math.ceil((has * (1 + stepPercent / 100)) / mebibyte)
  return canonicalQuantity(mebibytes * mebibyte >= most ? maxSize : `${mebibytes}Mi`)
}

/** When Postgres was last found to have no room for more, in ms since the epoch. */
function fullAt(observed: ObservedMember): number | undefined {
  const { pod, postgres } = observed
  if (pod?.trouble?.diskFull) return pod.trouble.endedAt ?? 0
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' && !answer.hasRoom ? postgres?.at : undefined
}

/** How full the volume is, in words; undefined where it is not as full as was said. */
function fullness(
  observed: ObservedMember,
  capacity: string,
  { atPercent }: Autogrow,
  since: string,
): string | undefined {
  const at = fullAt(observed)
  // Times on record are of whole seconds: later than all of that second.
  if (at !== undefined && at >= Date.parse(since) + 1_000) return 'the volume is full'
  const { volumeUse } = observed
  if (volumeUse === undefined) return undefined
  const percent = (100 * volumeUse) / (bytesTold(capacity) ?? Number.POSITIVE_INFINITY)
  return percent < atPercent ? undefined : `the volume is ${Math.floor(percent)} % full`
}

/** Whether volume and size are as they are to be, so that nothing else asks for storage. */
const isSettled = (observed: ObservedMember, { hindrance, shortfall }: SizeState): boolean => {
  const { instance, appliedSize } = observed
  const { name, version } = instance.spec.size
  return (
    hindrance === undefined &&
    shortfall === undefined &&
    appliedSize.pinned.name === name &&
    appliedSize.pinned.version === version
  )
}

/** The claim of the data, if it may grow. */
function claimOf({
  instance,
  children: { claim },
  isOrphanClaim,
  pod,
}: ObservedMember): PersistentVolumeClaim | undefined {
  const recorded = instance.status?.volume
  if (claim === undefined || recorded?.uid !== claim.metadata.uid || isOrphanClaim) return undefined
  if (claim.metadata.deletionTimestamp !== undefined || claim.status?.phase !== 'Bound') return undefined
  return instance.spec.suspended && pod === undefined ? undefined : claim
}

export function autogrowth(observed: ObservedMember, size: SizeState, now: number): Autogrowth {
  const { instance } = observed
  const autogrow = instance.spec.storage?.autogrow
  const before = instance.status?.storage
  const claim = claimOf(observed)
  if (autogrow === undefined) return { ...nothing, finding: raisedByOthers(observed, size, claim), status: undefined }
  const capacity = claim?.status?.capacity?.storage
  if (claim === undefined || capacity === undefined) return { ...nothing, status: before }
  const isSame = before?.capacity === capacity
  const status: StorageStatus = { capacity, since: isSame ? before.since : timestamp(now) }
  if (!isSettled(observed, size)) return { ...nothing, status }
  const requested = claim.spec?.resources?.requests?.storage ?? capacity
  const lacking = underway(observed, claim, requested)
  if (lacking) return { ...nothing, storage: requested, finding: lacking, status: { ...status, growsTo: requested } }
  // What was found so far may be of what the volume was before.
  const why = isSame ? fullness(observed, capacity, autogrow, before.since) : undefined
  if (why === undefined) return { ...nothing, status }
  const storage = nextStorage(capacity, autogrow)
  if (storage === undefined)
    return {
      ...nothing,
      finding: no('AtMaximum', `${why}, and has ${capacity}: storage.autogrow.maxSize is ${autogrow.maxSize}`),
      status,
    }
  const isHeld = awaitsRetry(observed.growthRefusal, claim, storage)
  const finding = isHeld
    ? no('GrowthRefused', `${why}, and must not grow to ${storage}: ${observed.growthRefusal?.message}`)
    : no('Growing', `${why}: it grows from ${capacity} to ${storage}`)
  return {
    storage,
    claim: isHeld ? undefined : resizedClaim(claim, storage),
    finding,
    status: { ...status, growsTo: storage },
  }
}

/** A claim whose request somebody raised above the size: the volume grows, and no request makes it smaller again. */
function raisedByOthers(
  observed: ObservedMember,
  size: SizeState,
  claim: PersistentVolumeClaim | undefined,
): Finding | undefined {
  const requested = claim?.spec?.resources?.requests?.storage
  const storage = size.shape?.storageSize
  if (claim === undefined || requested === undefined || storage === undefined || !isSettled(observed, size)) return
  if ((bytesTold(requested) ?? 0) <= (bytesTold(storage) ?? 0)) return
  const lacking = underway(observed, claim, requested)
  const field = `spec.resources.requests.storage of the claim ${claim.metadata.name}`
  return lacking && no(lacking.reason, `${field} is ${requested}, above the ${storage} of the size: ${lacking.message}`)
}

const reasons = {
  underway: 'Growing',
  'awaits-pod': 'Growing',
  failing: 'GrowthFailing',
  refused: 'GrowthRefused',
  infeasible: 'GrowthInfeasible',
} as const

/** What is said of a growth that is asked for and not in force, file system included; undefined where there is none. */
function underway(
  { growthRefusal }: ObservedMember,
  claim: PersistentVolumeClaim,
  requested: string,
): Finding | undefined {
  const growth = growthOf(claim, requested, growthRefusal)
  if (growth.state === 'done') return undefined
  const reason = reasons[growth.state]
  const isCalm = reason === 'Growing'
  return no(reason, isCalm ? growth.message : `the volume does not grow to ${requested}: ${growth.message}`)
}
