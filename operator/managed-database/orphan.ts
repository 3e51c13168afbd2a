/**
 * Deletes a ManagedDatabase and keeps everything that belongs to it, routes included. A client that creates the object
 * again finds the data at their previous address.
 */
import type { Cluster, ConfigMap } from '../../cluster/index.ts'
import { annotations, labels, type ManagedDatabase } from '../../crds/index.ts'
import { withoutFinalizer } from '../objects/finalizer.ts'
import { isRetainedRoute } from '../owner/orphaned-routes.ts'

/** @throws ClusterError */
export async function orphan(cluster: Cluster, database: ManagedDatabase, routes: readonly ConfigMap[]): Promise<void> {
  for (const route of routes) {
    const { metadata } = route
    if (isRetainedRoute(route)) continue
    const objectAnnotations = { ...metadata.annotations, [annotations.orphan]: 'true' }
    await cluster.replace('ConfigMap', { ...route, metadata: { ...metadata, annotations: objectAnnotations } })
  }
  await cluster.replace('ManagedDatabase', withoutFinalizer(database))
}

/** The Event for a database of which only the object was deleted. */
export function orphanedEvent({ metadata }: ManagedDatabase): ['Normal', string, string] {
  const id = metadata.labels?.[labels.id]
  const message = `deleted without what belongs to it: Postgres, volume, credentials and backups are kept. To take them over, create a ManagedDatabase of this name in this namespace with the label ${labels.id}=${id}`
  return ['Normal', 'Orphaned', message]
}
