/**
 * The record of the volume that holds the data. It is made when Postgres has answered for the first time, and says the
 * same for good; only which claim stands for the volume may change, where the database, its claim or an older status was
 * put back.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { VolumeRecord } from '../../../objects/instance.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import { type Answered, isOwn } from '../../postgres/answer.ts'
import { systemIdentifierOf } from '../claim.ts'
import { isRebound, mayRunOnRecordedVolume } from './volume-state.ts'

/**
 * The record that a claim gives by itself, where the database's own is missing or names a claim that is gone: the
 * claim was put back, with or after its database, and says that these data stand on it. Nothing else is done before
 * that is on record.
 */
export function recordFromClaim(observed: ObservedMember): VolumeRecord | undefined {
  const { instance, children, isOrphanClaim, volumes } = observed
  const { claim } = children
  const recorded = instance.status?.volume
  const { name = '', uid } = claim?.metadata ?? {}
  const systemIdentifier = claim && systemIdentifierOf(claim)
  if (claim === undefined || uid === undefined || systemIdentifier === undefined) return undefined
  const { volumeName } = claim.spec ?? {}
  const bound = volumeName === undefined ? {} : { volumeName }
  if (recorded === undefined) return { claim: name, uid, systemIdentifier, ...bound }
  if (recorded.uid === uid) return undefined
  if (isProven(observed, claim)) return { claim: name, uid, systemIdentifier, ...bound }
  if (recorded.systemIdentifier !== systemIdentifier) return undefined
  const isPutBack = ownerUidOf(claim) === instance.metadata.uid && isGone(observed)
  if (isOrphanClaim || isPutBack) return { claim: recorded.claim, uid, systemIdentifier, ...bound }
  const isOurs = isRebound(observed, claim) && volumes.recorded?.claimUid === uid
  return isOurs ? { ...recorded, uid } : undefined
}

/**
 * The record is of another time, out of a backup of the cluster: the claim carries this very object's uid and the number of its
 * data, and the pod that runs was made for it. What a pod has mounted under another claim is never passed over.
 */
function isProven({ instance, pod }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  if (ownerUidOf(claim) !== instance.metadata.uid || claim.status?.phase !== 'Bound') return false
  return pod?.address !== undefined && pod.volume === claim.metadata.uid
}

/** Whether the volume on record is gone for good: no claim or pod has it, and the cluster does not know it any more. */
const isGone = (observed: ObservedMember): boolean =>
  observed.volumes.recorded === undefined && !mayRunOnRecordedVolume(observed)

/** The record after a pass. Its volume's name is there before anything is done that only the volume survives. */
export function nextRecord(observed: ObservedMember, answered: Answered): VolumeRecord | undefined {
  const { instance, children, volumes } = observed
  const { claim } = children
  const recorded = instance.status?.volume
  if (recorded === undefined) {
    if (!isOwn(answered) || claim?.metadata.uid === undefined) return undefined
    const { systemIdentifier } = answered
    return named({ claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier }, claim.spec?.volumeName)
  }
  // The object that it was by is going, and there is another for the same storage.
  if (volumes.copy !== undefined) return named(recorded, volumes.copy.name)
  const isOurs = claim?.metadata.uid === recorded.uid
  return recorded.volumeName === undefined && isOurs ? named(recorded, claim.spec?.volumeName) : recorded
}

const named = (record: VolumeRecord, volumeName: string | undefined): VolumeRecord =>
  volumeName === undefined ? record : { ...record, volumeName }
