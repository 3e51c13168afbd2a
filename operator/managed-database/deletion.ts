/** The backups that are deleted with a database. */
import type { Cluster } from '../../cluster/index.ts'
import { type Backup, labels } from '../../crds/index.ts'
import type { Observed } from './observed.ts'
import { outlivesDatabase } from './plan/deletion-record.ts'

type Outlived = Pick<Observed, 'database' | 'deletionRecord'>

/** Lists the database's backups that must be deleted. Reads the cluster, not a cache. @throws ClusterError */
export async function remainingBackups(cluster: Cluster, observed: Outlived): Promise<Backup[]> {
  const { metadata, spec } = observed.database
  const { namespace, name, labels: objectLabels } = metadata
  const id = objectLabels?.[labels.id]
  if (spec.deletion.keepBackups || id === undefined) return []
  const { items } = await cluster.list('Backup', { namespace })
  return items.filter(
    backup => backup.spec.databaseId === id && backup.spec.databaseName === name && !outlivesDatabase(observed, backup),
  )
}
