/**
 * The state of a recorded volume whose claim or PersistentVolume somebody deletes or has deleted. A running pod keeps both from being
 * removed; the data outlive the pod only if the volume's reclaim policy is `Retain` and its name is on record.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'

/**
 * - safe: nobody deletes it, or no data are on record yet.
 * - terminating: claim or volume are removed as soon as no pod uses them.
 * - released: the claim is gone; the volume exists and gets a new claim.
 * - lost: both are gone, or another claim has the name. Postgres may still run on the volume.
 */
type VolumeState = 'safe' | 'terminating' | 'released' | 'lost'

export function volumeStateOf(observed: ObservedMember): VolumeState {
  const { instance, children, volumes } = observed
  const recorded = instance.status?.volume
  const { claim } = children
  if (recorded === undefined) return 'safe'
  if (claim?.metadata.uid === recorded.uid && claim.status?.phase !== 'Lost')
    return claim.metadata.deletionTimestamp !== undefined || volumes.bound?.isTerminating === true
      ? 'terminating'
      : 'safe'
  const isFree = claim === undefined || claim.metadata.uid === recorded.uid || isRebound(observed, claim)
  return isFree && isThere(observed) ? 'released' : 'lost'
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
  if (recorded.isTerminating && !recorded.isRetained) return false
  const { claimUid } = recorded
  return claimUid === undefined || claimUid === uid || claimUid === children.claim?.metadata.uid
}

/** Whether the data outlive the claim: the volume on record stays, whatever becomes of the claim. */
export function outlivesClaim({
  instance,
  children: { claim },
  volumes: { recorded, bound },
}: ObservedMember): boolean {
  // What a strange claim is bound to is another's matter.
  const own = claim?.metadata.uid === instance.status?.volume?.uid ? bound : undefined
  return recorded?.isRetained === true && !recorded.isTerminating && own?.isRetained !== false
}

/**
 * Whether Postgres may be running on the volume on record. What a pod has mounted it keeps, whatever becomes of the claim,
 * also through a crash after which its node starts it again; a pod that was made after another claim took the name never had it.
 */
export function mayRunOnRecordedVolume({ instance, children: { claim }, pod }: ObservedMember): boolean {
  if (pod === undefined || pod.terminating) return false
  const isComingBack = pod.trouble !== undefined && !pod.isStuck
  if (pod.address === undefined && !isComingBack) return false
  if (claim === undefined || claim.metadata.uid === instance.status?.volume?.uid) return true
  // Times are told in seconds: of two in the same one nobody knows which was first.
  return !((pod.createdAt ?? 0) > Date.parse(claim.metadata.creationTimestamp ?? ''))
}
