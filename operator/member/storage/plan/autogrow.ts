/**
 * Grows a volume automatically, by one step each time its use reaches the threshold, up to the configured maximum. The
 * claim records the request, so a crash causes no second request. While the request is above the capacity, a growth is
 * in progress, and the operator starts no other growth. A change of the size has priority.
 *
 * A report of a full volume counts only if it is from the current capacity. An earlier report concerns the smaller
 * volume.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { Autogrow } from '../../../../crds/index.ts'
import { canonicalQuantity, sizeInBytes } from '../../../../values/quantity.ts'
import { timestamp } from '../../../../values/time.ts'
import { type Finding, no } from '../../../objects/conditions.ts'
import type { StorageStatus } from '../../../objects/instance.ts'
import type { ObservedMember } from '../../observed.ts'
import type { SizeState } from '../../pod/plan/size.ts'
import { presentAnswer } from '../../postgres/answer.ts'
import { awaitsRetry, growthOf, resizedClaim } from './growth.ts'

export type Autogrowth = {
  /** The requested storage of the volume. */
  storage: string | undefined
  /** The claim with that request. Undefined if the claim already has the request, or must not be changed. */
  claim: PersistentVolumeClaim | undefined
  /** The state of the growth, or what blocks it. */
  finding: Finding | undefined
  /** The recorded status after this pass. */
  status: StorageStatus | undefined
}

const nothing = { storage: undefined, claim: undefined, finding: undefined }
const mebibyte = 2 ** 20

/** The capacity plus one step, in whole MiB, up to the maximum. */
export function nextStorage(capacity: string, { stepPercent, maxSize }: Autogrow): string | undefined {
  const [has, most] = [sizeInBytes(capacity) ?? 0, sizeInBytes(maxSize) ?? 0]
  if (has >= most) return undefined
  const mebibytes = Math.ceil((has * (1 + stepPercent / 100)) / mebibyte)
  return canonicalQuantity(mebibytes * mebibyte >= most ? maxSize : `${mebibytes}Mi`)
}

/** The time at which Postgres last reported a full volume, in ms since the epoch. */
function fullAt(observed: ObservedMember): number | undefined {
  const { pod, postgres } = observed
  if (pod?.problem?.diskFull) return pod.problem.endedAt ?? 0
  const answer = presentAnswer(observed)
  return answer?.state === 'answered' && !answer.hasFreeSpace ? postgres?.at : undefined
}

/** How full the volume is, as a message. Undefined below the threshold. */
function fullness(
  observed: ObservedMember,
  capacity: string,
  { atPercent }: Autogrow,
  since: string,
): string | undefined {
  const at = fullAt(observed)
  // Recorded times have whole seconds. So only times after the end of that second are certainly later.
  if (at !== undefined && at >= Date.parse(since) + 1_000) return 'the volume is full'
  const { volumeUse } = observed
  if (volumeUse === undefined) return undefined
  const percent = (100 * volumeUse) / (sizeInBytes(capacity) ?? Number.POSITIVE_INFINITY)
  return percent < atPercent ? undefined : `the volume is ${Math.floor(percent)} % full`
}

/** Whether volume and size have their desired state, so that nothing else requests storage. */
const isReconciled = (observed: ObservedMember, { blocker, shortfall }: SizeState): boolean => {
  const { instance, appliedSize } = observed
  const { name, version } = instance.spec.size
  return (
    blocker === undefined &&
    shortfall === undefined &&
    appliedSize.pinned.name === name &&
    appliedSize.pinned.version === version
  )
}

/** The claim of the data, if the volume may grow. */
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
  if (!isReconciled(observed, size)) return { ...nothing, status }
  const requested = claim.spec?.resources?.requests?.storage ?? capacity
  const lacking = underway(observed, claim, requested)
  if (lacking) return { ...nothing, storage: requested, finding: lacking, status: { ...status, growsTo: requested } }
  // Earlier facts may concern the volume at its previous capacity.
  const why = isSame ? fullness(observed, capacity, autogrow, before.since) : undefined
  if (why === undefined) return { ...nothing, status }
  const storage = nextStorage(capacity, autogrow)
  if (storage === undefined)
    return {
      ...nothing,
      finding: no(
        'AtMaximum',
        `${why} and has reached its maximum: it has ${capacity}, and storage.autogrow.maxSize is ${autogrow.maxSize}`,
      ),
      status,
    }
  const isDelayed = awaitsRetry(observed.growthRefusal, claim, storage)
  const finding = isDelayed
    ? no(
        'GrowthRefused',
        `${why}, and the cluster refused to grow it to ${storage}: ${observed.growthRefusal?.message}`,
      )
    : no('Growing', `${why} and grows from ${capacity} to ${storage}`)
  return {
    storage,
    claim: isDelayed ? undefined : resizedClaim(claim, storage),
    finding,
    status: { ...status, growsTo: storage },
  }
}

/**
 * Another manager raised the claim's request above the size. The volume grows, and the operator does not lower the
 * request.
 */
function raisedByOthers(
  observed: ObservedMember,
  size: SizeState,
  claim: PersistentVolumeClaim | undefined,
): Finding | undefined {
  const requested = claim?.spec?.resources?.requests?.storage
  const storage = size.shape?.storageSize
  if (claim === undefined || requested === undefined || storage === undefined || !isReconciled(observed, size)) return
  if ((sizeInBytes(requested) ?? 0) <= (sizeInBytes(storage) ?? 0)) return
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

/** The condition for a requested growth that is not complete, including its file system. Undefined if there is none. */
function underway(
  { growthRefusal }: ObservedMember,
  claim: PersistentVolumeClaim,
  requested: string,
): Finding | undefined {
  const growth = growthOf(claim, requested, growthRefusal)
  if (growth.state === 'done') return undefined
  const reason = reasons[growth.state]
  const isInProgress = reason === 'Growing'
  return no(reason, isInProgress ? growth.message : `the volume does not grow to ${requested}: ${growth.message}`)
}
