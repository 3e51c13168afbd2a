/**
 * Protects a volume that is being deleted. The operator sets its reclaim policy to `Retain` at once. If the
 * PersistentVolume itself is deleted, the operator creates a second one for the same storage. When Postgres has
 * stopped, the operator deletes the old claim and creates a new claim with the same name for the volume. Then the
 * operator restores the reclaim policy. The volume is already recorded (record.ts), so a crash after any step loses no
 * data.
 */

import type { DeleteAction } from '../../../children/actions.ts'
import type { Owner } from '../../../objects/ownership.ts'
import type { ObservedMember } from '../../observed.ts'
import { isStopped } from '../../pod/plan/stop.ts'
import type { StorageAction } from '../actions.ts'
import { reboundClaimDraft } from '../claim.ts'
import { copyName, type VolumeChange, type VolumeFacts } from '../persistent-volume.ts'
import { outlivesClaim, volumeStateOf } from './volume-state.ts'

const change = ({ name, uid }: VolumeFacts, to: VolumeChange): StorageAction => ({
  do: 'change-volume',
  name,
  uid,
  change: to,
})

/**
 * If the claim names the volume, restores a claimRef that another manager changed. Otherwise Kubernetes would bind the
 * volume to another claim, or reclaim it, although Postgres runs on it.
 */
function reserved({ instance, children: { claim }, volumes }: ObservedMember, owner: Owner): StorageAction[] {
  const record = instance.status?.volume
  const volume = volumes.bound ?? volumes.recorded
  if (record === undefined || volume === undefined || claim?.metadata.uid !== record.uid) return []
  const { name, namespace = '', uid = '', deletionTimestamp } = claim.metadata
  const isOwn = claim.spec?.volumeName === volume.name && claim.status?.phase !== 'Pending'
  if (!isOwn || volume.isTerminating || deletionTimestamp !== undefined) return []
  // Without a uid, the volume is reserved for any claim with this name. Only this owner's claim has this name.
  if (volume.claim === `${namespace}/${name}` && (volume.claimUid ?? uid) === uid) return []
  return [change(volume, { to: 'reserve', owner, claim: { namespace, name, uid } })]
}

export function protectVolume(observed: ObservedMember, owner: Owner): (StorageAction | DeleteAction)[] {
  const reservation = reserved(observed, owner)
  if (reservation.length > 0) return reservation
  switch (volumeStateOf(observed)) {
    case 'safe':
      return atRest(observed, owner)
    case 'terminating':
      return [...secured(observed, owner, observed.volumes.bound), ...withoutClaim(observed)]
    case 'released':
      return [...secured(observed, owner, observed.volumes.recorded), ...rebound(observed, owner)]
    case 'lost':
      // A lost volume may still exist, and Postgres may still run on it.
      return secured(observed, owner, observed.volumes.recorded)
  }
}

/**
 * Sets the labels, and restores the reclaim policy. While the database is suspended, no pod protects its claim, so the
 * volume stays retained.
 */
function atRest(
  { instance, children: { claim }, volumes: { bound }, pod }: ObservedMember,
  owner: Owner,
): StorageAction[] {
  if (bound === undefined || claim === undefined) return []
  if (!bound.isLabelled) return [change(bound, { to: 'label', owner })]
  const { suspended } = instance.spec
  if (suspended && !bound.isRetained && instance.status?.volume !== undefined)
    return [change(bound, { to: 'retain', owner })]
  const isBack = bound.isBound && bound.claimUid === claim.metadata.uid
  // Without a running pod nothing protects the claim.
  const isDue = !suspended && pod?.address !== undefined && isBack && bound.policyBefore !== undefined
  return isDue ? [change(bound, { to: 'give-back', claimUid: undefined })] : []
}

/** Retains the volume. If its object is being deleted, also creates a second object for the same storage. */
function secured(
  { instance, volumes: { copy } }: ObservedMember,
  owner: Owner,
  volume: VolumeFacts | undefined,
): StorageAction[] {
  const { uid } = instance.status?.volume ?? {}
  if (volume === undefined || uid === undefined) return []
  if (!volume.isRetained) return [change(volume, { to: 'retain', owner })]
  return volume.isTerminating && copy === undefined
    ? [{ do: 'copy-volume', from: volume.name, uid: volume.uid, name: copyName(uid), owner }]
    : []
}

/** Deletes the claim of a volume that is being deleted, when no pod runs and no pod should run. */
function withoutClaim(observed: ObservedMember): DeleteAction[] {
  const { children, pod } = observed
  const { claim, statefulSet } = children
  // The claim delays the volume's deletion, so the operator deletes the claim only if the data outlive it.
  if (!outlivesClaim(observed)) return []
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return []
  const isStill = pod === undefined && (statefulSet?.spec?.replicas ?? 0) === 0
  if (!isStill || !isStopped(observed)) return []
  const { name, namespace = '', uid = '' } = claim.metadata
  return [{ do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid }]
}

/** Binds the volume to a new claim when no pod uses it. */
function rebound(observed: ObservedMember, owner: Owner): (StorageAction | DeleteAction)[] {
  const { instance, incarnation, number, children, pod, volumes } = observed
  const { claim } = children
  const { recorded: volume } = volumes
  const record = instance.status?.volume
  if (!outlivesClaim(observed) || pod !== undefined || volume === undefined || record === undefined) return []
  if (claim?.metadata.uid === record.uid) {
    const { name, namespace = '', uid = '', deletionTimestamp } = claim.metadata
    return deletionTimestamp === undefined
      ? [{ do: 'delete', kind: 'PersistentVolumeClaim', name, namespace, uid }]
      : []
  }
  const isTaken = volume.claimUid !== undefined && volume.claimUid !== claim?.metadata.uid
  if (isTaken) return [change(volume, { to: 'unclaim' })]
  if (claim !== undefined) return []
  return [
    { do: 'create-claim', draft: reboundClaimDraft({ owner, incarnation, number }, record.systemIdentifier, volume) },
  ]
}
