/**
 * Namespaces that are being deleted. No object can be created in them, so the operator must not wait for new objects
 * there.
 */
import type { Cluster } from '../../cluster/index.ts'

/** Reads the cluster: no cache has namespaces without Espalier's labels. */
export async function isTerminating(cluster: Pick<Cluster, 'get'>, name: string): Promise<boolean> {
  const namespace = await cluster.get('Namespace', { name })
  return namespace?.metadata.deletionTimestamp !== undefined
}
