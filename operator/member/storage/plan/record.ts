/**
 * The record of the volume with the data. It is created when Postgres has answered for the first time, and does not
 * change. Only its claim may change, if the database, its claim or an older status was put back.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { VolumeRecord } from '../../../objects/instance.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import { type Answered, isOwn } from '../../postgres/answer.ts'
import { systemIdentifierOf } from '../claim.ts'
import { isRebound, mayRunOnRecordedVolume } from './volume-state.ts'

/**
 * The record made from a claim alone, if the database has none or its record names a deleted claim: the claim was put
 * back, with or after its database, and is annotated with the system identifier of these data. Nothing else is done
 * before this is recorded.
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
  const isPutBack = ownerUidOf(claim) === instance.metadata.uid && isDeleted(observed)
  if (isOrphanClaim || isPutBack) return { claim: recorded.claim, uid, systemIdentifier, ...bound }
  const isOwnClaim = isRebound(observed, claim) && volumes.recorded?.claimUid === uid
  return isOwnClaim ? { ...recorded, uid } : undefined
}

/**
 * The record is old, from a backup of the cluster: the claim has this object's uid and the incarnation number of its
 * data, and the running pod was created for it. A volume that a pod has mounted under another claim is never ignored.
 */
function isProven({ instance, pod }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  if (ownerUidOf(claim) !== instance.metadata.uid || claim.status?.phase !== 'Bound') return false
  return pod?.address !== undefined && pod.volume === claim.metadata.uid
}

/** Whether the recorded volume is permanently lost: no claim or pod has it, and it does not exist in the cluster. */
const isDeleted = (observed: ObservedMember): boolean =>
  observed.volumes.recorded === undefined && !mayRunOnRecordedVolume(observed)

/** The record after a pass. It contains the volume's name before any action that only the volume survives. */
export function nextRecord(observed: ObservedMember, answered: Answered): VolumeRecord | undefined {
  const { instance, children, volumes } = observed
  const { claim } = children
  const recorded = instance.status?.volume
  if (recorded === undefined) {
    if (!isOwn(answered) || claim?.metadata.uid === undefined) return undefined
    const { systemIdentifier } = answered
    return named({ claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier }, claim.spec?.volumeName)
  }
  // The recorded object is being deleted, and there is another for the same storage.
  if (volumes.copy !== undefined) return named(recorded, volumes.copy.name)
  const isOwnClaim = claim?.metadata.uid === recorded.uid
  return recorded.volumeName === undefined && isOwnClaim ? named(recorded, claim.spec?.volumeName) : recorded
}

const named = (record: VolumeRecord, volumeName: string | undefined): VolumeRecord =>
  volumeName === undefined ? record : { ...record, volumeName }
