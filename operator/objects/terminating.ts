/**
 * Namespaces that are being deleted: nothing can be created in them, so the operator must not wait for new objects
 * there.
 */
import type { Cluster } from '../../cluster/index.ts'

/** Read from the cluster: namespaces without Espalier's labels are in no cache. */
export async function isTerminating(cluster: Pick<Cluster, 'get'>, name: string): Promise<boolean> {
  const namespace = await cluster.get('Namespace', { name })
  return namespace?.metadata.deletionTimestamp !== undefined
}
