/**
 * Keys of services whose database or branch was never created. The API writes them first, and may crash or be refused
 * in between. Those of an existing owner are deleted with its leftovers.
 */
import type { Cluster } from '../../cluster/index.ts'
import { deletedDatabaseKey, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'

/** Much longer than any request of the API takes. */
const strayMs = 15 * 60_000

/** The caller has checked whether the clock is trusted. */
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

/** Reads the cluster itself, since a cache may lag behind the owner's creation. */
async function hasOwner(cluster: Cluster, namespace: string, id: string): Promise<boolean> {
  for (const kind of ['ManagedDatabase', 'Branch'] as const) {
    const { items } = await cluster.list(kind, { namespace, labels: { [labels.id]: id } })
    if (items.length > 0) return true
  }
  // A deleted database may be restored with them.
  return (await cluster.get('ConfigMap', deletedDatabaseKey(id))) !== undefined
}
