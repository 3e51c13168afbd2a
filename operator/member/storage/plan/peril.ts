/**
 * What has befallen the volume of a database that somebody deletes, or has deleted, its claim or the volume itself. A
 * pod that runs holds both; the data outlive it only where the volume says `Retain` and is on record by its name.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'

/**
 * - none: nothing, or no data are on record yet.
 * - going: claim or volume go as soon as no pod holds them.
 * - detached: the claim is gone, the volume is there, and is to get a new claim.
 * - lost: neither is there, or another claim stands in the way. Postgres may run on the volume all the same.
 */
type Peril = 'none' | 'going' | 'detached' | 'lost'

export function perilOf(observed: ObservedMember): Peril {
  const { instance, children, volumes } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  if (recorded === undefined) return 'none'
  if (claim?.metadata.uid === recorded.uid && claim.status?.phase !== 'Lost')
    return claim.metadata.deletionTimestamp !== undefined || volumes.bound?.isGoing === true ? 'going' : 'none'
  const isFree = claim === undefined || claim.metadata.uid === recorded.uid || isRebound(observed, claim)
  return isFree && isThere(observed) ? 'detached' : 'lost'
}

/** Whether this is the claim that we made for the volume, in place of the one that is gone. */
export function isRebound({ instance }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  const volumeName = instance.status?.volume?.volumeName
  return (
    volumeName !== undefined &&
    claim.spec?.volumeName === volumeName &&
    ownerUidOf(claim) === instance.metadata.uid &&
    claim.metadata.uid !== instance.status?.volume?.uid
  )
}

/** Whether the volume on record is there, with the data, and for no other claim. */
function isThere({ instance, children, volumes: { recorded } }: ObservedMember): boolean {
  const { claim = '', uid } = instance.status?.volume ?? {}
  if (recorded === undefined || recorded.claim !== `${instance.metadata.namespace}/${claim}`) return false
  // What goes with the policy `Delete` and without a claim is being emptied.
  if (recorded.isGoing && !recorded.isRetained) return false
  const { claimUid } = recorded
  return claimUid === undefined || claimUid === uid || claimUid === children.claim?.metadata.uid
}

/** Whether the data outlive the claim: the volume on record stays, whatever becomes of the claim. */
export function isKept({ instance, children: { claim }, volumes: { recorded, bound } }: ObservedMember): boolean {
  // What a strange claim is bound to is another's matter.
  const own = claim?.metadata.uid === instance.status?.volume?.uid ? bound : undefined
  return recorded?.isRetained === true && !recorded.isGoing && own?.isRetained !== false
}

/**
 * Whether Postgres may be running on the volume on record. What a pod has mounted it keeps, whatever becomes of the claim,
 * also through a crash after which its node starts it again; a pod that was made after another claim took the name never had it.
 */
export function mayRunOnRecorded({ instance, children: { claim }, pod }: ObservedMember): boolean {
  if (pod === undefined || pod.terminating) return false
  const isComingBack = pod.trouble !== undefined && !pod.isStuck
  if (pod.address === undefined && !isComingBack) return false
  if (claim === undefined || claim.metadata.uid === instance.status?.volume?.uid) return true
  // Times are told in seconds: of two in the same one nobody knows which was first.
  return !((pod.createdAt ?? 0) > Date.parse(claim.metadata.creationTimestamp ?? ''))
}
