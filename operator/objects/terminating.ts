/** Namespaces that are being deleted: nothing new can be created in them, so nothing must be waited for that has to be. */
import type { Cluster } from '../../cluster/index.ts'

/** By the cluster's own word: namespaces without our labels are in no cache. */
export async function isTerminating(cluster: Pick<Cluster, 'get'>, name: string): Promise<boolean> {
  const namespace = await cluster.get('Namespace', { name })
  return namespace?.metadata.deletionTimestamp !== undefined
}
