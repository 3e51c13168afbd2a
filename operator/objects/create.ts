/** Creates an object that another pass or process may already have created. */
import { type Cluster, type Draft, isClusterError, type KindName } from '../../cluster/index.ts'

/** @returns false if an object with this name exists, of any owner @throws ClusterError otherwise */
export async function createIfAbsent<K extends KindName>(
  cluster: Pick<Cluster, 'create'>,
  kind: K,
  draft: Draft<K>,
): Promise<boolean> {
  try {
    await cluster.create(kind, draft)
    return true
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return false
    throw error
  }
}
