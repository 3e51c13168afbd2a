/** The last step of a deletion: lets the database go, once nothing of it is left. */
import type { Cluster } from '../../cluster/index.ts'
import { labels, type ManagedDatabase } from '../../crds/index.ts'
import { letGo } from '../objects/held.ts'
import { deleteLeftovers, LeftoversError } from '../workload/leftovers.ts'

/** @throws LeftoversError; ClusterError */
export async function finishDeletion(cluster: Cluster, database: ManagedDatabase): Promise<'released'> {
  await deleteLeftovers(cluster, database)
  await deleteBackups(cluster, database)
  await cluster.replace('ManagedDatabase', letGo(database))
  return 'released'
}

/** No backup is left that no cache knew of. @throws LeftoversError where one was; ClusterError */
async function deleteBackups(cluster: Cluster, { metadata, spec }: ManagedDatabase): Promise<void> {
  const { namespace, name, labels: marks } = metadata
  const id = marks?.[labels.id]
  if (spec.deletion.keepBackups || id === undefined) return
  const { items } = await cluster.list('Backup', { namespace })
  const left = items.filter(backup => backup.spec.databaseId === id && backup.spec.databaseName === name)
  if (left.length === 0) return
  await Promise.all(left.map(({ metadata: { uid, ...key } }) => cluster.delete('Backup', key, { uid })))
  throw new LeftoversError(`deleted ${left.length} backups that were left`)
}
