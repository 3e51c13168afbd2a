/** Finds the backup that must be deleted with a branch: the source of the branch's volume. */
import type { Cluster } from '../../cluster/index.ts'
import { type Backup, childNames, labels } from '../../crds/index.ts'
import type { Observed } from './observed.ts'
import { ownBackup } from './plan/prebranch.ts'

/** Reads the API server, because a cache can lag. @throws ClusterError */
export async function remainingBackups(cluster: Cluster, { branch }: Pick<Observed, 'branch'>): Promise<Backup[]> {
  const id = branch.metadata.labels?.[labels.id]
  if (id === undefined) return []
  const backup = await cluster.get('Backup', { namespace: branch.metadata.namespace, name: childNames.prebranch(id) })
  const own = ownBackup({ branch, backup })
  return own === undefined ? [] : [own]
}
