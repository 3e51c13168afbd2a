/**
 * The state of a recorded volume whose claim or PersistentVolume is being deleted or was deleted. A running pod delays
 * the deletion of both. The data outlive the pod only if the volume's reclaim policy is `Retain` and its name is
 * recorded.
 */

import type { PersistentVolumeClaim } from '../../../../cluster/index.ts'
import { ownerUidOf } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'

/**
 * - safe: the volume is not being deleted, or no data are recorded yet.
 * - terminating: Kubernetes deletes claim or volume as soon as no pod uses them.
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
  return isFree && isAvailable(observed) ? 'released' : 'lost'
}

/** Whether the operator created this claim for the volume, in place of the deleted claim. */
export function isRebound({ instance }: ObservedMember, claim: PersistentVolumeClaim): boolean {
  const volumeName = instance.status?.volume?.volumeName
  return (
    volumeName !== undefined &&
    claim.spec?.volumeName === volumeName &&
    ownerUidOf(claim) === instance.metadata.uid &&
    claim.metadata.uid !== instance.status?.volume?.uid
  )
}

/** Whether the recorded volume exists, and is not reserved for another claim. */
function isAvailable({ instance, children, volumes: { recorded } }: ObservedMember): boolean {
  const { claim = '', uid } = instance.status?.volume ?? {}
  if (recorded === undefined || recorded.claim !== `${instance.metadata.namespace}/${claim}`) return false
  // Kubernetes deletes the storage of a volume with the policy `Delete` and without a claim.
  if (recorded.isTerminating && !recorded.isRetained) return false
  const { claimUid } = recorded
  return claimUid === undefined || claimUid === uid || claimUid === children.claim?.metadata.uid
}

/** Whether the data outlive the claim: the recorded volume is kept if the claim is deleted. */
export function outlivesClaim({
  instance,
  children: { claim },
  volumes: { recorded, bound },
}: ObservedMember): boolean {
  // The volume of another owner's claim is irrelevant for this database.
  const own = claim?.metadata.uid === instance.status?.volume?.uid ? bound : undefined
  return recorded?.isRetained === true && !recorded.isTerminating && own?.isRetained !== false
}

/**
 * Whether Postgres may be running on the recorded volume. A pod keeps its mounted volume if the claim is deleted, even
 * if the pod crashes and its node restarts it. If a pod is newer than a claim that took the recorded claim's name, the
 * pod never mounted the volume.
 */
export function mayRunOnRecordedVolume({ instance, children: { claim }, pod }: ObservedMember): boolean {
  if (pod === undefined || pod.terminating) return false
  const willRestart = pod.problem !== undefined && !pod.isStuck
  if (pod.address === undefined && !willRestart) return false
  if (claim === undefined || claim.metadata.uid === instance.status?.volume?.uid) return true
  // Creation times have whole seconds. If two are equal, their order is unknown.
  return !((pod.createdAt ?? 0) > Date.parse(claim.metadata.creationTimestamp ?? ''))
}
