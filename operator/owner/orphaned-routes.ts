/** The routes of an owner that no longer exists, because a user removed its finalizer or orphaned it. */
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { parseKey } from '../../cluster/informer/index.ts'
import { annotations, labels } from '../../crds/index.ts'
import type { Caches } from '../caches.ts'
import { ownerKeyOf, ownerKindOf, ownerUidOf } from '../objects/ownership.ts'
import type { OwnerName } from './kind.ts'

/** Whether the route belongs to an orphaned database. */
export const isRetainedRoute = ({ metadata }: ConfigMap): boolean =>
  metadata.annotations?.[annotations.orphan] === 'true'

/** Deletes the routes. An orphaned database's routes are kept as long as its volume. @throws ClusterError */
export async function deleteRoutes(caches: Caches, cluster: Cluster, kind: OwnerName, key: string): Promise<void> {
  for (const route of caches.configMaps.byIndex('ownerKey', key)) {
    // A database and a branch may have the same name.
    if (ownerKindOf(route) !== kind) continue
    const { namespace, name, uid } = route.metadata
    const id = route.metadata.labels?.[labels.database] ?? ''
    const hasData = caches.claims.byIndex('database', id).some(claim => ownerKeyOf(claim) === key)
    if (hasData && isRetainedRoute(route)) continue
    const live = await cluster.get(kind, parseKey(key))
    const isOwned = live?.metadata.labels?.[labels.id] === id
    if (live !== undefined && (isOwned || live.metadata.uid === ownerUidOf(route))) return
    await cluster.delete('ConfigMap', { namespace, name }, { uid })
  }
}
