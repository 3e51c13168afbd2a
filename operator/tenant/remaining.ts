/** The objects with data in a tenant's namespace. They keep the namespace from being deleted. */
import type { Cluster } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { type Finding, no } from '../objects/conditions.ts'

/** Undefined if no data remain. Reads the cluster. A failed backup contains no data. */
export async function remainingIn(cluster: Pick<Cluster, 'list'>, namespace: string): Promise<Finding | undefined> {
  const databases = await cluster.list('ManagedDatabase', { namespace, limit: 1 })
  if (databases.items.length > 0) return no('HasDatabases', 'databases remain: delete them first')
  const { items } = await cluster.list('Backup', { namespace })
  const backups = items.filter(({ status }) => status?.phase !== 'failed')
  if (backups.length > 0)
    return no(
      'HasBackups',
      `${backups.length} backups of deleted databases remain, such as ${backups[0]?.metadata.name}: delete them first`,
    )
  const claims = await cluster.list('PersistentVolumeClaim', { namespace, labels: { [labels.database]: true } })
  if (claims.items.length === 0) return undefined
  return no(
    'HasVolumes',
    `${claims.items.length} volumes of databases remain, such as ${claims.items[0]?.metadata.name}: create their databases again, or delete the claims by force`,
  )
}
