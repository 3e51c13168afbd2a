/** What in a tenant's namespace holds data, for which the namespace is not deleted. */
import type { Cluster } from '../../cluster/index.ts'
import { labels } from '../../crds/index.ts'
import { type Finding, no } from '../objects/conditions.ts'

/** Undefined where nothing is left. By the cluster's own word. A backup that failed holds nothing. */
export async function leftIn(cluster: Pick<Cluster, 'list'>, namespace: string): Promise<Finding | undefined> {
  const databases = await cluster.list('ManagedDatabase', { namespace, limit: 1 })
  if (databases.items.length > 0) return no('HasDatabases', 'databases are left: delete them first')
  const { items } = await cluster.list('Backup', { namespace })
  const backups = items.filter(({ status }) => status?.phase !== 'failed')
  if (backups.length > 0)
    return no(
      'HasBackups',
      `${backups.length} backups of deleted databases are left, such as ${backups[0]?.metadata.name}: delete them first`,
    )
  const claims = await cluster.list('PersistentVolumeClaim', { namespace, labels: { [labels.database]: true } })
  if (claims.items.length === 0) return undefined
  return no(
    'HasVolumes',
    `${claims.items.length} volumes of databases are left, such as ${claims.items[0]?.metadata.name}: create their databases again, or delete the claims by force`,
  )
}
