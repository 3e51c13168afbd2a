/**
 * The record of the volume with the data. The operator creates the record at Postgres's first answer. Later the
 * operator changes only the volume's name in it. It replaces the record only if the database, its claim or an older
 * status was restored from a backup of the cluster.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import type { VolumeRecord } from '../../../objects/instance.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import { type Answered, isOwn } from '../../postgres/answer.ts'
import { systemIdentifierOf } from '../claim.ts'
import { isRebound, mayRunOnRecordedVolume } from './volume-state.ts'

/**
 * The record for a claim that was restored with or after its database. The database has no record, or its record names
 * a deleted claim. The claim's annotation has the system identifier of the data. The operator does nothing else before
 * it has written this record.
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
 * Whether the record is outdated, from an old backup of the cluster. The claim belongs to this object, and the running
 * pod was created for the claim. So the claim's volume has the current data.
 */
function isProven({ instance, pod }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  if (ownerUidOf(claim) !== instance.metadata.uid || claim.status?.phase !== 'Bound') return false
  return pod?.address !== undefined && pod.volume === claim.metadata.uid
}

/** Whether the recorded volume is permanently lost: the cluster does not have it, and no pod may still run on it. */
const isDeleted = (observed: ObservedMember): boolean =>
  observed.volumes.recorded === undefined && !mayRunOnRecordedVolume(observed)

/** The record after a pass. It gets the volume's name before the operator does anything that could delete the claim. */
export function nextRecord(observed: ObservedMember, answered: Answered): VolumeRecord | undefined {
  const { instance, children, volumes } = observed
  const { claim } = children
  const recorded = instance.status?.volume
  if (recorded === undefined) {
    if (!isOwn(answered) || claim?.metadata.uid === undefined) return undefined
    const { systemIdentifier } = answered
    return named({ claim: claim.metadata.name, uid: claim.metadata.uid, systemIdentifier }, claim.spec?.volumeName)
  }
  // The recorded object is being deleted. The copy is the object for the same storage.
  if (volumes.copy !== undefined) return named(recorded, volumes.copy.name)
  const isOwnClaim = claim?.metadata.uid === recorded.uid
  return recorded.volumeName === undefined && isOwnClaim ? named(recorded, claim.spec?.volumeName) : recorded
}

const named = (record: VolumeRecord, volumeName: string | undefined): VolumeRecord =>
  volumeName === undefined ? record : { ...record, volumeName }
