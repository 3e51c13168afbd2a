/** Snapshots of backups that are gone. */
import type { Cluster } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKindOf } from '../objects/ownership.ts'

/**
 * Deletes the snapshots of a backup that is gone, where they were for one branch alone: a write that an earlier leader sent may create
 * one after the branch and its backup have ended. A snapshot of any other backup stays: it may be all that is left of the data, and
 * the backup can be put back.
 */
export async function deleteOrphanedCopies(
  { snapshots }: Pick<Caches, 'snapshots'>,
  cluster: Cluster,
  key: string,
): Promise<void> {
  const left = snapshots.byIndex('singleUse', key).filter(snapshot => ownerKindOf(snapshot) === 'Backup')
  if (left.length === 0 || (await cluster.get('Backup', parseKey(key))) !== undefined) return
  for (const { metadata } of left) {
    const { namespace, name, uid, deletionTimestamp } = metadata
    if (deletionTimestamp === undefined) await cluster.delete('VolumeSnapshot', { namespace, name }, { uid })
  }
}
