/** The backups that are deleted with a database. */
import type { Cluster } from '../../cluster/index.ts'
import { type Backup, labels } from '../../crds/index.ts'
import type { Observed } from './observed.ts'

/** Those that the cluster itself lists. @throws ClusterError */
export async function remainingBackups(cluster: Cluster, { database }: Pick<Observed, 'database'>): Promise<Backup[]> {
  const { metadata, spec } = database
  const { namespace, name, labels: marks } = metadata
  const id = marks?.[labels.id]
  if (spec.deletion.keepBackups || id === undefined) return []
  const { items } = await cluster.list('Backup', { namespace })
  return items.filter(backup => backup.spec.databaseId === id && backup.spec.databaseName === name)
}
