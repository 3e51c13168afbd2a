/** The routes of a database that no longer exists. */
import type { Cluster } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import { labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKeyOf, ownerKindOf, ownerUidOf } from '../objects/ownership.ts'
import { isKeptRoute } from './orphan.ts'

/** Deletes the routes that a removed finalizer left. Those of an orphaned database are kept as long as its volume. @throws ClusterError */
export async function deleteRoutes(caches: Caches, cluster: Cluster, key: string): Promise<void> {
  for (const route of caches.configMaps.byIndex('ownerKey', key)) {
    // A branch may have the same name.
    if (ownerKindOf(route) !== 'ManagedDatabase') continue
    const { namespace, name, uid } = route.metadata
    const id = route.metadata.labels?.[labels.database] ?? ''
    const hasData = caches.claims.byIndex('database', id).some(claim => ownerKeyOf(claim) === key)
    if (hasData && isKeptRoute(route)) continue
    const live = await cluster.get('ManagedDatabase', parseKey(key))
    const isHeld = live?.metadata.labels?.[labels.id] === id
    if (live !== undefined && (isHeld || live.metadata.uid === ownerUidOf(route))) return
    await cluster.delete('ConfigMap', { namespace, name }, { uid })
  }
}
