/** Writes a member's claim and its volumes. */
import { type Cluster, ClusterError, isRefused, type PersistentVolume } from '../../../cluster/index.ts'
import { type ChildExecutor, type ChildPass, createChild } from '../../children/act.ts'
import type { StorageAction } from './actions.ts'
import type { GrowthRefusals } from './growth-refusals.ts'
import { changedVolume, copiedVolume } from './persistent-volume.ts'

export type StorageExecutor = ChildExecutor & { growthRefusals: GrowthRefusals }

/** `memberKey`: contains the owner's key and the member's number. */
type StoragePass = ChildPass & { memberKey: string }

/** `refused`: the cluster does not allow the volume to grow. */
export type StorageResult = 'done' | 'refused'

export async function performStorage(
  executor: StorageExecutor,
  pass: StoragePass,
  action: StorageAction,
): Promise<StorageResult> {
  switch (action.do) {
    case 'create-claim':
      await createChild(executor, pass, 'PersistentVolumeClaim', action.draft)
      return 'done'
    case 'update-claim':
      await executor.cluster.replace('PersistentVolumeClaim', action.claim)
      return 'done'
    case 'grow-claim':
      return growClaim(executor, pass, action)
    case 'change-volume':
      await changeVolume(executor, action)
      return 'done'
    case 'copy-volume':
      await copyVolume(executor, action)
      return 'done'
  }
}

/**
 * Records a refusal by a quota or a storage class. A condition then reports the refusal, and the next request waits.
 */
async function growClaim(
  { cluster, growthRefusals }: StorageExecutor,
  { memberKey }: StoragePass,
  { claim }: Extract<StorageAction, { do: 'grow-claim' }>,
): Promise<StorageResult> {
  try {
    await cluster.replace('PersistentVolumeClaim', claim)
  } catch (error) {
    if (!isRefused(error)) throw error
    growthRefusals.refused(memberKey, claim, error.message)
    return 'refused'
  }
  growthRefusals.admitted(memberKey)
  return 'done'
}

async function changeVolume(
  { cluster }: StorageExecutor,
  { name, uid, change }: Extract<StorageAction, { do: 'change-volume' }>,
): Promise<void> {
  const volume = await cluster.get('PersistentVolume', { name })
  if (volume === undefined || volume.metadata.uid !== uid) return
  const changed = changedVolume(volume, change)
  if (changed === volume) return
  // If the owner is being deleted, the operator itself has deleted the claim, and `change` has the claim's uid.
  if (change.to === 'give-back' && change.claimUid === undefined) await checkClaimStays(cluster, volume)
  await cluster.replace('PersistentVolume', changed)
}

/**
 * Another leader may have retained the volume because its claim was deleted, and this operator's cache may lag. So the
 * operator restores the volume's previous reclaim policy only if the cluster has the claim.
 * @throws ClusterError `Conflict` if the claim was deleted or replaced, or if the claim or the volume is being deleted
 */
async function checkClaimStays(cluster: Cluster, { metadata, spec }: PersistentVolume): Promise<void> {
  const { namespace, name = '', uid } = spec?.claimRef ?? {}
  const claim = await cluster.get('PersistentVolumeClaim', { namespace, name })
  const stays = claim !== undefined && claim.metadata.uid === uid && claim.metadata.deletionTimestamp === undefined
  if (stays && metadata.deletionTimestamp === undefined) return
  throw new ClusterError(
    'Conflict',
    `the claim of volume ${metadata.name} was deleted or replaced, or one of the two is being deleted: the operator keeps the volume's reclaim policy Retain`,
  )
}

async function copyVolume(
  { cluster }: StorageExecutor,
  { from, uid, name, owner }: Extract<StorageAction, { do: 'copy-volume' }>,
): Promise<void> {
  const volume = await cluster.get('PersistentVolume', { name: from })
  if (volume === undefined || volume.metadata.uid !== uid) return
  await cluster.create('PersistentVolume', copiedVolume(volume, name, owner))
}
