/**
 * The state of a recorded volume whose claim or PersistentVolume is being deleted or was deleted. A running pod keeps
 * both from being removed; the data outlive the pod only if the volume's reclaim policy is `Retain` and its name is
 * recorded.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'

/**
 * - safe: it is not being deleted, or no data are recorded yet.
 * - terminating: claim or volume are removed as soon as no pod uses them.
 * - released: the claim is deleted; the volume exists and gets a new claim.
 * - lost: both are deleted, or another claim has the name. Postgres may still run on the volume.
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

/** Whether this is the claim that the operator created for the volume, in place of the deleted one. */
export function isRebound({ instance }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  const volumeName = instance.status?.volume?.volumeName
  return (
    volumeName !== undefined &&
    claim.spec?.volumeName === volumeName &&
    ownerUidOf(claim) === instance.metadata.uid &&
    claim.metadata.uid !== instance.status?.volume?.uid
  )
}

/** Whether the recorded volume exists, with the data, and for no other claim. */
function isThere({ instance, children, volumes: { recorded } }: ObservedMember): boolean {
  const { claim = '', uid } = instance.status?.volume ?? {}
  if (recorded === undefined || recorded.claim !== `${instance.metadata.namespace}/${claim}`) return false
  // A volume with the policy `Delete` and without a claim is being erased.
  if (recorded.isTerminating && !recorded.isRetained) return false
  const { claimUid } = recorded
  return claimUid === undefined || claimUid === uid || claimUid === children.claim?.metadata.uid
}

/** Whether the data outlive the claim: the recorded volume remains if the claim is deleted. */
export function outlivesClaim({
  instance,
  children: { claim },
  volumes: { recorded, bound },
}: ObservedMember): boolean {
  // The volume of another owner's claim does not concern this database.
  const own = claim?.metadata.uid === instance.status?.volume?.uid ? bound : undefined
  return recorded?.isRetained === true && !recorded.isTerminating && own?.isRetained !== false
}

/**
 * Whether Postgres may be running on the recorded volume. A pod keeps its mounted volume even if the claim is deleted,
 * also through a crash after which its node starts it again. A pod created after another claim took the name never had
 * the volume.
 */
export function mayRunOnRecordedVolume({ instance, children: { claim }, pod }: ObservedMember): boolean {
  if (pod === undefined || pod.terminating) return false
  const isComingBack = pod.problem !== undefined && !pod.isStuck
  if (pod.address === undefined && !isComingBack) return false
  if (claim === undefined || claim.metadata.uid === instance.status?.volume?.uid) return true
  // Times have whole seconds: of two in the same second the order is unknown.
  return !((pod.createdAt ?? 0) > Date.parse(claim.metadata.creationTimestamp ?? ''))
}
