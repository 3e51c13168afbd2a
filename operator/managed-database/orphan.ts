/**
 * Deletes a ManagedDatabase and keeps everything that belongs to it. The routes are kept too, so that a recreated
 * database has the same address.
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

/** The Event after a deletion that kept Postgres and the data. */
export function orphanedEvent({ metadata }: ManagedDatabase): ['Normal', string, string] {
  const id = metadata.labels?.[labels.id]
  const message = `the ManagedDatabase is deleted. Postgres, volume, credentials and backups are kept. To manage them again, create a ManagedDatabase with this name in this namespace and the label ${labels.id}=${id}`
  return ['Normal', 'Orphaned', message]
}
