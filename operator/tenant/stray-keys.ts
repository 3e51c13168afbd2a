/**
 * Keys of services whose database or branch was never created. The API writes the keys first. It may then crash, or the
 * database may be refused. Keys of an existing owner are deleted with the owner's leftovers.
 */
import type { Cluster } from '../../cluster/index.ts'
import { deletedDatabaseKey, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'

/** Much longer than any request of the API takes. */
const strayMs = 15 * 60_000

/** The caller must have checked that the clock is trusted. */
export async function deleteStrayKeys(
  { secrets }: Pick<Caches, 'secrets'>,
  cluster: Cluster,
  namespace: string,
  now: number,
): Promise<void> {
  const old = secrets
    .within(namespace)
    .byIndex('serviceKeys', namespace)
    .filter(({ metadata }) => now - Date.parse(metadata.creationTimestamp ?? '') >= strayMs)
  const ids = new Map(old.map(secret => [secret, secret.metadata.labels?.[labels.database] ?? '']))
  for (const id of new Set(ids.values())) {
    if (await hasOwner(cluster, namespace, id)) continue
    for (const { metadata } of old.filter(secret => ids.get(secret) === id))
      await cluster.delete('Secret', { namespace, name: metadata.name }, { uid: metadata.uid })
  }
}

/** Reads the cluster, because a cache may not have the owner yet. */
async function hasOwner(cluster: Cluster, namespace: string, id: string): Promise<boolean> {
  for (const kind of ['ManagedDatabase', 'Branch'] as const) {
    const { items } = await cluster.list(kind, { namespace, labels: { [labels.id]: id } })
    if (items.length > 0) return true
  }
  // A user may restore a deleted database with these keys.
  return (await cluster.get('ConfigMap', deletedDatabaseKey(id))) !== undefined
}
