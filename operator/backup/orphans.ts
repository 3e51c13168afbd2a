/** Snapshots of deleted backups. */
import type { Cluster } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKindOf } from '../objects/ownership.ts'

/**
 * Deletes the snapshots of a deleted backup if they were only for one branch: a late write of an earlier leader may
 * create one after the branch and its backup have ended. Any other snapshot is kept: it may be the only remaining copy
 * of the data, and the backup can be recreated.
 */
export async function deleteOrphanedCopies(
  { snapshots }: Pick<Caches, 'snapshots'>,
  cluster: Cluster,
  key: string,
): Promise<void> {
  const remaining = snapshots.byIndex('singleUse', key).filter(snapshot => ownerKindOf(snapshot) === 'Backup')
  if (remaining.length === 0 || (await cluster.get('Backup', parseKey(key))) !== undefined) return
  for (const { metadata } of remaining) {
    const { namespace, name, uid, deletionTimestamp } = metadata
    if (deletionTimestamp === undefined) await cluster.delete('VolumeSnapshot', { namespace, name }, { uid })
  }
}
