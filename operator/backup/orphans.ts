/** Snapshots of deleted backups. */
import type { Cluster } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKindOf } from '../objects/ownership.ts'

/**
 * Deletes the single-use snapshots of a deleted backup. A late write of the previous leader may create one after its
 * branch and backup are deleted. Other snapshots are kept: they may be the only copy of the data, and a user can
 * recreate the Backup.
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
